package cni

import (
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// forgetMost is how many last holders an ADD looks at. It is more than a DEL
// leaves, so that the records become fewer.
const forgetMost = 8

// slowLook is how long a look into a network namespace takes when the kernel is in trouble.
const slowLook = time.Second

// taken reports whether a free address is in use all the same: the network namespace of its
// last holder has it, or it is held outside of the state.
func (ad *adding) taken(outside func(netip.Addr) (bool, error)) func(netip.Addr) (bool, error) {
	return func(addr netip.Addr) (bool, error) {
		r, found, err := ad.tx.LastHolder(ad.conf.Network, addr)
		if err != nil {
			return false, err
		}
		if found && ad.isIn(r.NetNS, r.BootID, []netip.Addr{addr}) {
			ad.Log.Warn("Free address is in use: the network namespace of its last container still has it",
				"address", addr.String(), "container", r.ContainerID, "netns", r.NetNS.Path)
			return true, nil
		}
		if outside == nil {
			return false, nil
		}
		return outside(addr)
	}
}

// reservedInUse reports whether the life of the owner that ended still has a reserved address.
func (ad *adding) reservedInUse(r reservation.Reservation) bool {
	return ad.isIn(r.NetNS, r.BootID, r.Addresses)
}

// isIn reports whether the network namespace of a holder that ended exists, and has one of the
// addresses. Mostly the namespace is gone, and the answer costs one stat. Other verbs wait for
// this one: after a slow look, each further namespace counts as having the addresses.
func (p *Plugin) isIn(ns reservation.NetNS, bootID string, addrs []netip.Addr) bool {
	switch {
	case !p.Exists(ns, bootID):
		return false
	case p.Has == nil || p.slow:
		return true
	}
	start := p.Now()
	has := p.Has(ns, addrs)
	p.slow = p.Now().Since(start) >= slowLook
	return has
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

// forgetLastHolders deletes some last holders whose namespace is gone. Those of
// an IPv4 range are replaced anyway; an IPv6 range is too large for that. Each
// ADD begins at another one, because the namespaces of some can stay.
func (ad *adding) forgetLastHolders() error {
	some, err := ad.tx.SomeLastHolders(ad.conf.Network, forgetMost, ad.spin())
	if err != nil {
		return err
	}
	for _, r := range some {
		if ad.Exists(r.NetNS, r.BootID) {
			continue
		}
		if err := ad.tx.ForgetLastHolders(r.Network, r.Address); err != nil {
			return err
		}
	}
	return nil
}

// spin returns a number that is another one in each ADD: the runtime draws the ID of a container at random.
func (ad *adding) spin() uint64 {
	n := uint64(ad.a.Since.Wall.UnixNano())
	for _, b := range []byte(ad.a.ID.ContainerID) {
		n = (n ^ uint64(b)) * 1099511628211 // FNV-1a
	}
	return n ^ n>>32
}
