package recovery

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// quarantineOnce holds what the namespaces have and nothing explains, at the first ADD of
// each network after a rebuild. The rebuild may not have known the network.
func (s *source) quarantineOnce() error {
	tx, network := s.verb.Tx, s.verb.Conf.Network
	if tx.UnknownQuarantined(network) {
		return nil
	}
	if err := s.quarantineUnknown(tx); err != nil {
		return err
	}
	return tx.SetUnknownQuarantined(network)
}

// releaseQuarantined frees addresses of namespaces that are gone by now, unless another
// namespace has the address as well: networks may overlap.
func (s *source) releaseQuarantined() error {
	tx, network := s.verb.Tx, s.verb.Conf.Network
	all, err := tx.NetNSPlaceholders(network)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(all, s.Node.Alive)
	if len(gone) == 0 {
		return nil
	}
	for _, a := range gone {
		if err := tx.DeleteAttachment(a.ID); err != nil {
			return err
		}
	}
	return s.quarantineUnknown(tx)
}

// quarantineUnknown holds the addresses of the network in namespaces that no attachment explains.
func (s *source) quarantineUnknown(tx *persistence.Tx) error {
	known, err := tx.Records()
	if err != nil {
		return err
	}
	inside, err := s.placeholdersOf(s.verb.Conf)
	if err != nil {
		return err
	}
	for _, f := range inside {
		f.Addresses = slices.DeleteFunc(slices.Clone(f.Addresses), func(addr netip.Addr) bool { return explained(known.Attachments, f.NetNS, addr) })
		if err := hold(tx, f); err != nil {
			return err
		}
	}
	return nil
}

// explained reports whether an attachment, of whichever network, is why a namespace has an
// address.
func explained(known []reservation.Attachment, in reservation.NetNS, addr netip.Addr) bool {
	return slices.ContainsFunc(known, func(a reservation.Attachment) bool {
		return !a.ID.IsNetNSPlaceholder() && a.NetNS.Dev == in.Dev && a.NetNS.Inode == in.Inode && slices.Contains(a.Addresses, addr)
	})
}

// hold stores a placeholder for those of its addresses that are free in the network.
func hold(tx *persistence.Tx, f reservation.Attachment) error {
	before, _, err := tx.Attachment(f.ID)
	if err != nil {
		return err
	}
	all := before.Addresses
	for _, addr := range f.Addresses {
		held, err := tx.Held(f.ID.Network, addr)
		if err != nil {
			return err
		}
		if !held && !slices.Contains(all, addr) { // an interface may have one twice, with two masks
			all = append(all, addr)
		}
	}
	if len(all) == len(before.Addresses) {
		return nil
	}
	f.Addresses = all
	if f.Seq, err = tx.NextSeq(); err != nil {
		return fmt.Errorf("number attachment: %w", err)
	}
	return tx.PutAttachment(f)
}
