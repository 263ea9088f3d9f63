package persistence

import (
	"errors"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/persistence/internal/salvage"
)

var (
	// ErrNoState is returned by View on a node where no state was ever made.
	ErrNoState = errors.New("no state was made yet")
	// ErrLost is returned when a state was made but its file is gone.
	ErrLost = errors.New("state file is lost")
	// ErrDamaged is returned when the state file cannot be read. Nothing was
	// written to it.
	ErrDamaged = salvage.ErrDamaged
	// ErrNewer is returned for a state file of a later schema.
	ErrNewer = errors.New("state file was written by a newer version")
	// errOlder is for a file that lacks what this version added.
	errOlder = errors.New("state file was written by an older version")
	// ErrName is returned for a name that is no text, has a zero byte in it, or is endless;
	// and for that of a network if there is none.
	ErrName = errors.New("name cannot be stored")
	// ErrUnchanged ends the transaction without writing when the function given to
	// Update returns it; Update then returns nil.
	ErrUnchanged = errors.New("nothing to change")
	// ErrLocked is returned when the lock was not free within the bound.
	ErrLocked = flock.ErrLocked
)

// LostOrDamaged reports whether an error says that the state is lost or damaged, which is no
// fault of what was asked of it.
func LostOrDamaged(err error) bool {
	return (errors.Is(err, ErrLost) || errors.Is(err, ErrDamaged)) && !errors.Is(err, ErrNewer)
}
