package cniplugin

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// search holds what the namespaces have and nothing explains, at the first ADD of each
// network after a rebuild: who rebuilt may not have known of this network, and has held
// nothing for it (rule 6).
func (p *Plugin) search(tx *persistence.Tx, network string) error {
	if tx.Recoveries() == 0 || tx.UnknownQuarantined(network) {
		return nil
	}
	if err := p.holdUnexplained(tx, network); err != nil {
		return err
	}
	return tx.SetUnknownQuarantined(network)
}

func (p *Plugin) holdUnexplained(tx *persistence.Tx, network string) error {
	known, err := tx.Records()
	if err != nil {
		return err
	}
	for _, f := range p.found([]string{network}) {
		f.Addresses = slices.DeleteFunc(slices.Clone(f.Addresses), func(addr netip.Addr) bool { return explained(known.Attachments, f.NetNS, addr) })
		if err := holdFound(tx, f); err != nil {
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

// holdFound holds those addresses that are not held in the network already.
func holdFound(tx *persistence.Tx, f reservation.Attachment) error {
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
