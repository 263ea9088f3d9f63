package cni

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// pendingMarker is the marker file of an ADD that waits, for the lock or for its predecessor. A DEL that runs first
// removes the file and so cancels the ADD, which would hold addresses for a container that
// has ended.
//
// Verbs that need not wait make no file. The file goes through no transaction and is not
// synced: an ADD that waits does not outlive a power loss. The agent removes markers of ADDs
// that were killed as they waited.
//
// A nil marker is that of an ADD that has not waited.
type pendingMarker struct{ path string }

// pendingMarkerOf returns the marker of an attachment. No name of a network or of an interface has a colon.
func pendingMarkerOf(c *netconf.Config, id reservation.AttachmentID) *pendingMarker {
	dir := cmp.Or(c.DataDir, persistence.DefaultDir)
	return &pendingMarker{path: filepath.Join(dir, persistence.PendingDir, fmt.Sprintf("%s:%s:%s", id.Network, id.ContainerID, id.IfName))}
}

// createPendingMarker makes the file. Without it the ADD goes on and cannot be cancelled.
func createPendingMarker(c *netconf.Config, id reservation.AttachmentID) *pendingMarker {
	if m := pendingMarkerOf(c, id); m.create() {
		return m
	}
	return nil
}

// create makes the file, and reports whether it could.
func (m *pendingMarker) create() bool {
	_ = os.Mkdir(filepath.Dir(m.path), 0o700) // it is there already, or WriteFile fails
	return os.WriteFile(m.path, nil, 0o600) == nil
}

// cancelled reports whether a DEL has removed the file. The caller holds the lock.
func (m *pendingMarker) cancelled() bool {
	if m == nil {
		return false
	}
	_, err := os.Stat(m.path)
	return errors.Is(err, os.ErrNotExist)
}

// cancel removes the file: at the end of its ADD, or to tell a waiting ADD to give up. Mostly
// there is none.
func (m *pendingMarker) cancel() {
	if m == nil {
		return
	}
	_ = os.Remove(m.path) // an ADD that is not told to give up is no worse than without markers
}
