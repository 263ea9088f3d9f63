package cniplugin

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// reclaim frees the reservation of a set that ends soonest; those that insist go last. One
// whose address nobody could have for it does not end in vain.
func (p *Plugin) reclaim(tx *persistence.Tx, conf *config, set ipam.Set, now reservation.Moment) error {
	if conf.refuse {
		return nil
	}
	held, err := reservedIn(tx, conf.network, set)
	if err != nil {
		return err
	}
	slices.SortFunc(held, func(a, b reservation.Reservation) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Deadline.Left(now), b.Deadline.Left(now)))
	})
	for _, r := range held {
		useful, err := conf.handsOut(set, r.Addresses)
		if err != nil {
			return err
		}
		if !useful {
			continue
		}
		p.Log.Warn("Range set is exhausted, the reservation that ends soonest gives way",
			"rangeSet", set.String(), "owner", r.Owner.String(), "addresses", r.Addresses, "left", r.Deadline.Left(now).String())
		p.line.Outcome = outcomeReclaimed
		return tx.Reclaim(r.Owner)
	}
	return nil
}

// handsOut reports whether a set could hand out one of the addresses if no reservation held
// it: it is not the gateway by now, and host-local does not have it.
func (c *config) handsOut(set ipam.Set, addrs []netip.Addr) (bool, error) {
	for _, a := range addrs {
		r, in := set.Contains(a)
		if !in || a == r.Gateway {
			continue
		}
		if taken, err := takenIn(c.hostLocal, a); !taken || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// reservedIn returns the reservations that hold an address of a set.
func reservedIn(tx *persistence.Tx, network string, set ipam.Set) ([]reservation.Reservation, error) {
	all, err := tx.Reservations(network)
	return slices.DeleteFunc(all, func(r reservation.Reservation) bool {
		return !slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool {
			_, in := set.Contains(a)
			return in
		})
	}), err
}
