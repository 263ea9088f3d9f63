package cniplugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// pending is the word that an ADD leaves before it waits for the lock: a file with the name
// of its attachment. A DEL that comes first knows of no such attachment and takes the word
// away, so that the ADD, when its turn comes, takes nothing for a container that has ended.
// Verbs that need not wait leave nothing. It goes through no transaction, and is not synced:
// who waits does not outlive a power loss. The agent removes what an ADD left that was
// killed as it waited.
type pending struct {
	path string
	left bool
}

func pendingOf(dataDir string, id reservation.AttachmentID) *pending {
	return &pending{path: filepath.Join(dataDir, persistence.PendingDir, fmt.Sprintf("%s-%s-%s", id.Network, id.ContainerID, id.IfName))}
}

// leave leaves the word. Where that fails the ADD is as safe as it is without.
func (w *pending) leave() {
	_ = os.Mkdir(filepath.Dir(w.path), 0o700) // it is there already, or the next step tells
	w.left = os.WriteFile(w.path, nil, 0o600) == nil
}

// takenAway reports whether a DEL has come since. It must be asked under the lock.
func (w *pending) takenAway() bool {
	if !w.left {
		return false
	}
	_, err := os.Stat(w.path)
	return errors.Is(err, os.ErrNotExist)
}

// done removes the word of an ADD that has come to its end.
func (w *pending) done() {
	if w.left {
		w.takeAway()
	}
}

// takeAway tells an ADD that waits to give up. Mostly there is none.
func (w *pending) takeAway() {
	_ = os.Remove(w.path) // one that cannot be removed is no worse than none
}
