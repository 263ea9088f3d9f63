package reservation

import "errors"

var (
	// ErrDuplicate is returned for an ADD whose attachment exists already.
	ErrDuplicate = errors.New("duplicate allocation is not allowed")
	// ErrPredecessor is returned while an earlier life of the owner still has its
	// network namespace; trying again later helps.
	ErrPredecessor = errors.New("predecessor is still alive")
	// ErrRequired is returned when an owner that insists on its addresses cannot
	// have them.
	ErrRequired = errors.New("retention is required")
	// ErrHeld is returned when an address is given to a second holder.
	ErrHeld = errors.New("address is held")
)
