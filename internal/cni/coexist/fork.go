package coexist

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/results"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// legacyStateOf returns what the fork's record of an owner on this network says: the address that the fork keeps, or the
// container that still lives. At most one of them is set. The fork may stamp the end of an earlier container on the record
// of a running one, so the time of an end counts only where the container is gone.
func (s *source) legacyStateOf(o reservation.Owner) (reserved *hostlocal.Record, living *reservation.Attachment, err error) {
	if !o.Named() {
		return nil, nil, nil
	}
	r, found, err := s.fork.Of(o.Namespace, o.Pod)
	if err != nil || !found || r.IfName != o.IfName {
		return nil, nil, err
	}
	taken, err := s.taken(r.Addr) // by any of the pod's containers
	if err != nil || !taken {
		return nil, nil, err // of another network, or given back
	}
	if living = s.livingOf(r); living != nil {
		living.Owner = o
		if !living.AnnotationsSeen {
			living.Retain = min(r.For, s.conf.MaxReservation)
		}
		return nil, living, nil
	}
	if r.Released.IsZero() {
		return nil, nil, nil
	}
	return &r, nil, nil
}

// livingOf returns the container of a record as libcni's cache knows it, if its network
// namespace is still there; nil otherwise.
func (s *source) livingOf(r hostlocal.Record) *reservation.Attachment {
	id := reservation.AttachmentID{Network: s.conf.Network, ContainerID: r.ContainerID, IfName: r.IfName}
	a, known := results.Of(s.node.ResultsDir, id, s.conf.MaxReservation)
	if !known || !slices.Contains(a.Addresses, r.Addr) {
		return nil
	}
	now, there := s.node.NetNS(a.NetNS.Path)
	a.NetNS = now
	if !there || !s.node.Alive(a) {
		return nil
	}
	return &a
}

// predecessor returns the living container, unless the state knows it or gave its address to
// another pod: there is nothing to wait for then.
func (s *source) predecessor(living *reservation.Attachment) (*reservation.Attachment, error) {
	if living == nil {
		return nil, nil
	}
	for _, a := range living.Addresses {
		held, err := s.verb.Tx.Held(living.ID.Network, a)
		if held || err != nil {
			return nil, err
		}
	}
	return living, nil
}

// heldByOthers says that the state gave the address that the fork kept for an owner to
// another pod; nil where the owner has it, or the address is free.
func (s *source) heldByOthers(r hostlocal.Record, o reservation.Owner) error {
	tx := s.verb.Tx
	held, err := tx.Held(o.Network, r.Addr)
	if err != nil || !held {
		return err
	}
	own, err := tx.AttachmentsOf(o)
	if err != nil {
		return err
	}
	kept, _, err := tx.Reservation(o)
	for _, a := range own {
		kept.Addresses = append(kept.Addresses, a.Addresses...)
	}
	if err != nil || slices.Contains(kept.Addresses, r.Addr) {
		return err
	}
	return fmt.Errorf("%s: %w by another", r.Addr, reservation.ErrHeld)
}

// legacyReservation translates a record of the fork.
func (f files) legacyReservation(o reservation.Owner, r hostlocal.Record) *reservation.Reservation {
	retain := min(r.For, f.conf.MaxReservation)
	return &reservation.Reservation{
		Owner: o, ContainerID: r.ContainerID, Addresses: []netip.Addr{r.Addr}, Retain: retain,
		Deadline: reservation.Deadline{From: reservation.Moment{Wall: r.Released}, For: retain},
	}
}

// lapsed reports whether a record is of a pod that has ended, and its time is over.
func (s *source) lapsed(r hostlocal.Record) bool {
	return !r.Released.IsZero() && s.legacyReservation(reservation.Owner{}, r).Deadline.Passed(s.verb.Now)
}

// removeLegacyReservation removes the fork's record of a pod that has come back, and the file
// of its address.
func (f files) removeLegacyReservation(r hostlocal.Record) error {
	h, found, err := f.hostLocal.Holder(r.Addr)
	if err != nil || !found || h.Mirrored {
		return errors.Join(err, f.fork.Remove(r))
	}
	return f.remove(legacyFiles{own: []hostlocal.Entry{{Addr: r.Addr, Holder: h}}, record: &r})
}
