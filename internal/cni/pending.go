package cni

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

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
// that were killed as they waited: the kernel has ended their locks.
//
// A nil marker is that of an ADD that has not waited.
type pendingMarker struct {
	path string
	file *os.File // locked while the ADD waits
}

// pendingMarkerOf returns the marker of an attachment. No name of a network or of an interface has a colon.
func pendingMarkerOf(c *netconf.Config, id reservation.AttachmentID) *pendingMarker {
	dir := cmp.Or(c.DataDir, persistence.DefaultDir)
	return &pendingMarker{path: filepath.Join(dir, persistence.PendingDir, fmt.Sprintf("%s:%s:%s", id.Network, id.ContainerID, id.IfName))}
}

// create makes the file and locks it, so that the agent knows that the ADD waits. It reports whether it could.
func (m *pendingMarker) create() bool {
	_ = os.Mkdir(filepath.Dir(m.path), 0o700) // it is there already, or OpenFile fails
	var err error
	if m.file, err = os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err == nil {
		_ = unix.Flock(int(m.file.Fd()), unix.LOCK_SH|unix.LOCK_NB) // without it the file is safe for an hour
	}
	return err == nil
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
	_ = m.file.Close()    // nil where another process has made it
	_ = os.Remove(m.path) // an ADD that is not told to give up is no worse than without markers
}
