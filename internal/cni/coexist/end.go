package coexist

import (
	"errors"
	"net/netip"

	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// End returns the files of an attachment that ends. For a container that only host-local
// knew, it returns the attachment as well.
func (s *source) End(a reservation.Attachment, known bool) (outside.End, error) {
	if known {
		l, err := s.findBeside(a)
		return outside.End{After: func() error { return errors.Join(s.removeMirrored(a), s.remove(l)) }}, err
	}
	l, err := s.find(a.ID, a.Owner, nil)
	if err != nil {
		return outside.End{}, err
	}
	end := outside.End{After: func() error { return s.remove(l) }}
	if len(l.own) == 0 {
		return end, nil
	}
	a, err = s.attachmentOf(a, l)
	end.Attachment = &a
	return end, err
}

// attachmentOf completes an attachment by the files that hold its addresses. Addresses that
// the state holds as well, because host-local went on unmirrored, are not reserved again.
func (s *source) attachmentOf(a reservation.Attachment, l legacyFiles) (reservation.Attachment, error) {
	a.Addresses = l.addresses()
	if l.record != nil && s.conf.Annotations == nil {
		a.Retain = min(l.record.For, s.conf.MaxReservation)
	}
	for _, addr := range a.Addresses {
		held, err := s.verb.Tx.Held(s.conf.Network, addr)
		if err != nil {
			return a, err
		}
		if held {
			a.Retain = 0
		}
	}
	var err error
	a.Seq, err = s.number(a.Owner, l)
	return a, err
}

// number returns the number of a container that only host-local knew: a new one for the
// owner's newest life, otherwise 0, which makes the container the oldest.
func (s *source) number(o reservation.Owner, l legacyFiles) (uint64, error) {
	if !o.Named() {
		return 0, nil
	}
	tx, in := s.verb.Tx, reservation.AdoptInput{Began: l.own[0].Changed}
	for _, f := range l.own {
		if f.Changed.Before(in.Began) {
			in.Began = f.Changed
		}
	}
	kept, found, err := tx.Reservation(o)
	if err != nil {
		return 0, err
	}
	if found {
		in.Reserved = &kept
	}
	known, err := tx.AttachmentsOf(o)
	if err != nil {
		return 0, err
	}
	for _, a := range known {
		in.Known = append(in.Known, reservation.Predecessor{Attachment: a, Alive: s.node.Alive(a)})
	}
	if !reservation.IsNewestLife(in) {
		return 0, nil
	}
	return tx.NextSeq()
}

// EndAlone frees a container's files where the state cannot be asked. A state is made only
// for an address that is to be reserved, or for a container that a removed state knew.
func (s *source) EndAlone(a reservation.Attachment, why outside.Reason) (outside.Alone, error) {
	l, err := s.find(a.ID, a.Owner, nil)
	if err != nil {
		return outside.Alone{}, err
	}
	switch why {
	case outside.NoState:
		reserves := len(l.own) > 0 && (a.Retain > 0 || l.record != nil)
		if reserves || len(l.mirrored) > 0 {
			return outside.Alone{NeedState: true}, nil
		}
	case outside.Unwritable:
		l.mirrored = nil // the state may well know the container
	}
	return outside.Alone{After: func() error { return s.remove(l) }}, nil
}

// Find returns the addresses that host-local's own files name for a container.
func (s *source) Find(id reservation.AttachmentID) ([]netip.Addr, error) {
	own, err := s.hostLocal.Of(id.ContainerID, id.IfName, nil)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, f := range own {
		if !f.Holder.Mirrored {
			addrs = append(addrs, f.Addr)
		}
	}
	return addrs, nil
}
