package coexist

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Add returns what host-local and its fork hold for the pod of a new attachment.
func (s *source) Add(a reservation.Attachment) (outside.Add, error) {
	kept, living, err := s.legacyStateOf(a.Owner)
	if err != nil {
		return outside.Add{}, err
	}
	add := outside.Add{
		Denies:  func(addrs []netip.Addr) error { return s.denies(a.Owner, kept, addrs) },
		Taken:   s.taken,
		Cursor:  s.hostLocal.Cursor,
		Reclaim: []func() error{s.removeStale, func() error { return s.endUnmirrored(reservation.AttachmentID{}) }},
		Stored:  s.stored,
		Done:    func(a reservation.Attachment, err error) error { return s.done(a, kept, err) },
	}
	if kept != nil {
		add.Kept = s.legacyReservation(a.Owner, *kept)
		add.Kept.BootID = s.verb.Now.BootID // the fork lends nothing
	}
	if add.Existing, err = s.existing(a, kept); err != nil {
		return add, err
	}
	add.Living, err = s.predecessor(living)
	return add, err
}

// existing returns what the container has on its interface already. The address that the
// fork keeps for the pod does not count.
func (s *source) existing(a reservation.Attachment, kept *hostlocal.Record) (*reservation.Attachment, error) {
	var heldErr error
	l, err := s.find(a.ID, a.Owner, func(addr netip.Addr) bool {
		held, err := s.verb.Tx.Held(s.conf.Network, addr)
		heldErr = errors.Join(heldErr, err)
		return held // by the attachment that its mirrored file would name
	})
	if err := errors.Join(err, heldErr); err != nil {
		return nil, err
	}
	l.own = slices.DeleteFunc(l.own, func(e hostlocal.Entry) bool { return kept != nil && e.Addr == kept.Addr })
	if len(l.own) == 0 {
		return nil, nil
	}
	return &reservation.Attachment{ID: a.ID, Addresses: l.addresses()}, nil
}

// denies says who holds one of the addresses that an owner had. An address that the fork
// kept for the owner is its own, unless the state gave it to another pod.
func (s *source) denies(o reservation.Owner, kept *hostlocal.Record, addrs []netip.Addr) error {
	if kept != nil && slices.Contains(addrs, kept.Addr) {
		if err := s.heldByOthers(*kept, o); err != nil {
			return err
		}
	}
	for _, a := range addrs {
		if kept != nil && kept.Addr == a {
			continue
		}
		h, found, err := s.hostLocal.Holder(a)
		if err != nil {
			return err
		}
		if found && !h.Mirrored {
			return fmt.Errorf("host-local holds %s for container %s", a, h.ContainerID)
		}
	}
	return nil
}

// done removes the files that an ADD has made needless: the copies of an ADD that failed, or
// what the fork kept for a pod that has come back.
func (s *source) done(a reservation.Attachment, kept *hostlocal.Record, err error) error {
	if err != nil {
		return s.removeMirrored(a)
	}
	if kept == nil {
		return nil
	}
	if err := s.removeLegacyReservation(*kept); err != nil { // the pod has its address; the next ADD or an exhausted range removes the file
		s.verb.Log.Warn("Record of host-local's fork could not be removed", "pod", a.Owner.String(), "error", err)
	}
	return nil
}
