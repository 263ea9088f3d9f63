package coexist

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/cni/results"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// busy makes hostlocal.ErrTaken an outside.ErrBusy.
type busy struct{ error }

// Is makes outside.ErrBusy match.
func (b busy) Is(target error) bool { return target == outside.ErrBusy }

// Unwrap returns the error of host-local's directory.
func (b busy) Unwrap() error { return b.error }

// stored writes host-local's files of a new attachment, if copies are wished. The first time
// it writes those of all attachments of the network. Once copies are not wished any more, it
// learns from the files for the last time which DELs went to host-local.
func (s *source) stored(a reservation.Attachment) error {
	tx, network, wished := s.verb.Tx, s.conf.Network, s.conf.Mirror
	was := tx.Mirrored(network)
	if was && !wished {
		if err := s.endUnmirrored(a.ID); err != nil {
			return err
		}
	}
	if was != wished {
		if err := tx.SetMirrored(network, wished); err != nil {
			return fmt.Errorf("remember mirroring: %w", err)
		}
	}
	switch {
	case !wished:
		return nil
	case !was:
		return s.mirrorAll()
	}
	if err := s.mirror(a); errors.Is(err, hostlocal.ErrTaken) {
		return busy{err}
	} else if err != nil {
		return err
	}
	return nil
}

func (s *source) mirrorAll() error {
	all, err := s.verb.Tx.Attachments(s.conf.Network)
	if err != nil {
		return err
	}
	for _, a := range all {
		err := s.mirror(a)
		if errors.Is(err, hostlocal.ErrTaken) { // host-local's file came between a look and the lock; neither can be taken back now
			s.verb.Log.Warn("An address has two holders", "container", a.ID.ContainerID, "error", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (f files) mirror(a reservation.Attachment) error {
	for _, addr := range a.Addresses {
		if err := f.hostLocal.Mirror(addr, a.ID.ContainerID, a.ID.IfName); err != nil {
			return err
		}
		if n := f.conf.SetOf(addr); n < len(f.conf.Sets) {
			if err := f.hostLocal.MirrorCursor(n, addr); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeMirrored removes the mirrored files of an attachment that has ended. It looks for
// them whether copies are wished or not, so that none outlasts the wish.
func (f files) removeMirrored(a reservation.Attachment) error {
	var errs []error
	for _, addr := range a.Addresses {
		errs = append(errs, f.hostLocal.Remove(addr, hostlocal.Holder{ContainerID: a.ID.ContainerID, IfName: a.ID.IfName, Mirrored: true}))
	}
	return errors.Join(errs...)
}

// endUnmirrored ends attachments whose DEL went to host-local: their mirrored files are gone,
// and so are their namespaces. The attachment that an ADD makes now may have no file yet.
func (s *source) endUnmirrored(made reservation.AttachmentID) error {
	if !s.verb.Tx.Mirrored(s.conf.Network) {
		return nil
	}
	all, err := s.verb.Tx.Attachments(s.conf.Network)
	if err != nil {
		return err
	}
	for _, a := range all {
		has := func(addr netip.Addr) bool {
			h, _, holderErr := s.hostLocal.Holder(addr)
			err = errors.Join(err, holderErr)
			return h.Is(a.ID.ContainerID, a.ID.IfName)
		}
		if a.ID == made || s.node.Alive(a) || slices.ContainsFunc(a.Addresses, has) || err != nil {
			continue
		}
		if err := s.verb.End(a); err != nil {
			return err
		}
	}
	return err
}

// Mirrored returns the attachments that mirrored files name, without their pods. A lost state
// needs most to know which container has an address.
func (n *Neighbour) Mirrored(c *netconf.Config) ([]reservation.Attachment, error) {
	if c.Network == "" {
		return nil, nil
	}
	all, err := filesOf(c).hostLocal.Entries()
	if err != nil {
		return nil, err
	}
	at := map[reservation.AttachmentID]int{}
	var found []reservation.Attachment
	for _, e := range all {
		id := reservation.AttachmentID{Network: c.Network, ContainerID: e.Holder.ContainerID, IfName: e.Holder.IfName}
		if !e.Holder.Mirrored || !results.ValidID(id) {
			continue
		}
		if i, known := at[id]; known {
			found[i].Addresses = append(found[i].Addresses, e.Addr)
			continue
		}
		at[id] = len(found)
		found = append(found, reservation.Attachment{
			ID: id, Owner: reservation.Owner{Network: id.Network, IfName: id.IfName},
			Addresses: []netip.Addr{e.Addr}, Since: reservation.Moment{Wall: e.Changed},
		})
	}
	return found, nil
}
