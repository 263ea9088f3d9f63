package cni

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// maxTries bounds how many times one ADD is tried. Two are usual: a DEL of the predecessor ends the first
// wait, and the end of its namespace the second one.
const maxTries = 8

// Wait is what an ADD waits for, without the lock.
type Wait struct {
	// Path is that of the network namespace that should go.
	Path string
	// Markers are files whose removal ends the wait.
	Markers []string
	// Over reports whether the wait is over.
	Over func() bool
	// AtMost bounds the wait.
	AtMost time.Duration
}

// prepareWait makes the markers of a wait while the ADD has the lock, so that no DEL comes between. It makes none for an
// ADD that answers at once.
func (ad *adding) prepareWait(on *reservation.AddWait) {
	ad.ended.cancel()
	ad.ended = nil
	if on == nil || ad.Await == nil || ad.conf.AddWait == 0 {
		return
	}
	ad.mark()
	if m := endMarkerOf(ad.conf, on.ID); m.create() { // else a DEL of the predecessor does not end the wait
		ad.ended = m
	}
}

// mark creates the marker of the ADD before the ADD begins to wait, unless the ADD has one. Without it the ADD goes on and
// cannot be cancelled.
func (ad *adding) mark() {
	if m := pendingMarkerOf(ad.conf, ad.a.ID); ad.marker == nil && m.create() {
		ad.marker = m
	}
}

// retry waits for the end of the predecessor that refused an ADD, and tries the ADD again. A runtime that gets
// code 11 tries again after 10 seconds or more, and a predecessor that was deleted by force mostly ends earlier.
// The lock is free meanwhile: the DEL of the predecessor needs the lock.
func (ad *adding) retry(plan *reservation.AddDecision, err error) error {
	begin := ad.Now()
	for tries := 1; tries < maxTries && errors.Is(err, reservation.ErrPredecessor) && plan.Wait != nil && ad.Await != nil; tries++ {
		left := ad.conf.AddWait - ad.Now().Since(begin)
		if left <= 0 {
			break
		}
		ad.await(*plan.Wait, left)
		if unwanted := ad.checkStillWanted(); unwanted != nil {
			return errors.Join(err, unwanted)
		}
		if *plan, err = ad.try(); err == nil {
			waited := fmt.Sprintf("waited %s for the predecessor or limpet-agent", ad.Now().Since(begin).Round(time.Millisecond))
			ad.entry.Reason = strings.TrimPrefix(ad.entry.Reason+"; "+waited, "; ")
		}
	}
	return err
}

// await waits until another try may have another outcome.
func (ad *adding) await(on reservation.AddWait, left time.Duration) {
	w := Wait{Path: on.NetNS.Path, AtMost: left, Over: func() bool {
		return ad.checkStillWanted() != nil || ad.ended.cancelled() || !ad.keeps(on)
	}}
	if on.AtMost > 0 {
		w.AtMost = min(left, on.AtMost)
	}
	for _, m := range []*pendingMarker{ad.marker, ad.ended} {
		if m != nil {
			w.Markers = append(w.Markers, m.path)
		}
	}
	ad.Await(w)
}

// keeps reports whether the network namespace of a predecessor still keeps its successor waiting. The wait for the agent ends
// with its marker.
func (ad *adding) keeps(on reservation.AddWait) bool {
	if on.NetNS == (reservation.NetNS{}) {
		return true
	}
	if len(on.Addresses) == 0 {
		return ad.Exists(on.NetNS, on.BootID)
	}
	return ad.isIn(on.NetNS, on.BootID, on.Addresses)
}

// endMarkerOf returns the marker file of an attachment for whose end an ADD waits. The DEL of the attachment
// removes the file. The name begins with a dot, as no name of a network does.
func endMarkerOf(c *netconf.Config, id reservation.AttachmentID) *pendingMarker {
	m := pendingMarkerOf(c, id)
	dir, name := filepath.Split(m.path)
	m.path = dir + "." + name
	return m
}

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

// cancelled reports whether a DEL has removed the file. Only while the caller holds the lock, none can do so a moment later.
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

// markRefused remembers on the predecessor when a successor was first turned away. A living
// predecessor that the state did not know is stored from then on. Nothing else is stored by
// an ADD that fails.
func (ad *adding) markRefused(plan reservation.AddDecision) error {
	if plan.RefusedByReserved {
		return ad.markReserved()
	}
	if plan.RefusedBy == nil {
		return persistence.ErrUnchanged
	}
	predecessor, found, err := ad.tx.Attachment(*plan.RefusedBy)
	if err == nil && !found {
		predecessor = *ad.beside.Living
		predecessor.Seq, err = ad.tx.NextSeq()
	}
	if err != nil {
		return err
	}
	predecessor.RefusedSince, predecessor.RefusedUID = &ad.a.Since, ad.a.UID
	return ad.tx.PutAttachment(predecessor)
}

// markReserved remembers on the reservation when its owner was first turned away.
func (ad *adding) markReserved() error {
	r, found, err := ad.tx.Reservation(ad.a.Owner)
	if err != nil || !found {
		return err
	}
	r.RefusedSince, r.RefusedUID = &ad.a.Since, ad.a.UID
	return ad.tx.PutReservation(r)
}
