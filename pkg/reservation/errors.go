package reservation

import "errors"

var (
	// ErrDuplicate is returned for an ADD whose attachment already exists.
	ErrDuplicate = errors.New("duplicate allocation is not allowed")
	// ErrPredecessor is returned while the network namespace of an earlier life of the owner exists. Trying again later
	// helps.
	ErrPredecessor = errors.New("predecessor is still alive")
	// ErrRequired is returned when an owner with mode required cannot have its addresses.
	ErrRequired = errors.New("retention is required")
	// ErrHeld is returned when an address would get a second holder.
	ErrHeld = errors.New("address is held")
)
