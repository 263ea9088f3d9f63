package cni

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
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
			waited := fmt.Sprintf("waited %s for the end of the predecessor", ad.Now().Since(begin).Round(time.Millisecond))
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

// keeps reports whether the network namespace of a predecessor still keeps its successor waiting.
func (ad *adding) keeps(on reservation.AddWait) bool {
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
