package persistence

import (
	"errors"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

var (
	// ErrNoState is returned by View, and by an Update for an existing state, on a node without one.
	ErrNoState = errors.New("no state was created yet")
	// ErrLost is returned when a state was created and its file is gone.
	ErrLost = errors.New("state file is lost")
	// ErrDamaged is returned when the state file cannot be read. Nothing was written to the file.
	ErrDamaged = errors.New("state file is damaged")
	// ErrOutdated is returned for a state file that is older than the marker says: an earlier one was put in its place.
	ErrOutdated = errors.New("state file is an earlier one")
	// ErrNewer is returned for a state with a newer schema, or with a bucket that this version does not know.
	ErrNewer = errors.New("state file was written by a newer version")
	// errReadOnly is returned for a write in a View.
	errReadOnly = errors.New("write in a read-only transaction")
	// ErrName is returned for a name that is not valid UTF-8, has a zero byte or is too long, and for a network without
	// a name.
	ErrName = errors.New("name cannot be stored")
	// ErrUnchanged ends an Update without writing: when the function returns ErrUnchanged, Update returns nil.
	ErrUnchanged = errors.New("nothing to change")
	// ErrLocked is returned when the lock was not free within Options.LockWait.
	ErrLocked = flock.ErrLocked
)

// LostOrDamaged reports whether an error says that the state is lost, damaged or outdated, and can be rebuilt.
func LostOrDamaged(err error) bool {
	return (errors.Is(err, ErrLost) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrOutdated)) && !errors.Is(err, ErrNewer)
}
