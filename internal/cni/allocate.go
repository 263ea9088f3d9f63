package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// allocate takes an address of each range set: the one that an earlier sandbox of the pod had, or else the next free one.
func (ad *adding) allocate() error {
	ad.entry.Outcome = outcomeNew
	released, err := ad.released()
	if err != nil {
		return err
	}
	for n := range ad.conf.Sets {
		if addr, ok, err := ad.again(n, released.Own); err != nil {
			return err
		} else if ok {
			ad.a.Addresses = append(ad.a.Addresses, addr)
			continue
		}
		addr, err := ad.pick(n)
		if errors.Is(err, ipam.ErrExhausted) {
			return ad.exhausted(n, err)
		}
		if err != nil {
			return err
		}
		if err := ad.tx.SetCursor(ad.conf.Network, n, addr); err != nil {
			return fmt.Errorf("move cursor: %w", err)
		}
		ad.a.Addresses = append(ad.a.Addresses, addr)
	}
	ad.entry.Addresses = ad.a.Addresses
	return nil
}

// again returns the address of a set that an earlier sandbox of the pod had, if it is free. One that is asked for by number
// overrules it.
func (ad *adding) again(n int, own []netip.Addr) (netip.Addr, bool, error) {
	at := slices.IndexFunc(own, ad.conf.Sets[n].HandsOut)
	if at < 0 || ad.wanted[n].IsValid() {
		return netip.Addr{}, false, nil
	}
	if taken, err := ad.held(own[at]); taken || err != nil {
		return netip.Addr{}, false, err
	}
	if ad.use(own[at]) == ipam.Routed {
		return netip.Addr{}, false, nil
	}
	ad.cameBack, ad.entry.Reason = true, "new sandbox of the same pod"
	return own[at], true, nil
}

// released returns the addresses that were released lately.
func (ad *adding) released() (persistence.Released, error) {
	return ad.tx.Released(ad.conf.Network, ad.a.Release(ad.a.Since), ad.a.Since)
}

// held reports whether an address is not free.
func (ad *adding) held(a netip.Addr) (bool, error) {
	if held, err := ad.tx.Held(ad.conf.Network, a); held || err != nil {
		return held, err
	}
	return ad.beside.Taken(a)
}

// pick returns the address asked for by number, or else the next free one. Where it is not
// free, the steps of ipam.ReclaimSteps free addresses until it is.
func (ad *adding) pick(n int) (netip.Addr, error) {
	want := ad.wanted[n]
	try := func() (netip.Addr, bool, error) { return ad.next(n) }
	if want.IsValid() {
		try = func() (netip.Addr, bool, error) { return ad.requested(want) }
	}
	if addr, ok, err := try(); ok || err != nil {
		return addr, err
	}
	for _, step := range ipam.ReclaimSteps(want.IsValid()) {
		for _, free := range ad.reclaimers(step, n) {
			if err := free(); err != nil {
				return netip.Addr{}, err
			}
			if addr, ok, err := try(); ok || err != nil {
				return addr, err
			}
		}
	}
	if want.IsValid() {
		return want, netconf.RequestedError(fmt.Sprintf("failed to allocate for range %d: requested IP address %s is not available in range set %s", n, want, ad.conf.Sets[n]))
	}
	return netip.Addr{}, fmt.Errorf("%w: %s", ipam.ErrExhausted, ad.conf.Sets[n])
}

// next returns the next free address of a set; false when there is none.
func (ad *adding) next(n int) (netip.Addr, bool, error) {
	cursor := ad.tx.Cursor(ad.conf.Network, n)
	if !cursor.IsValid() && ad.beside.Cursor != nil {
		cursor = ad.beside.Cursor(n) // go on where the other plugin stopped
	}
	released, err := ad.released()
	if err != nil {
		return netip.Addr{}, false, err
	}
	in := ipam.ChooseInput{Last: cursor, Free: ipam.Without(ad.tx.Free(ad.conf.Network), ad.beside.Taken), Use: ad.use}
	if in.Kept = released.Kept; ad.conf.ReleaseDelay > 0 {
		in.Released = released.Delayed
	}
	choice, err := ad.conf.Sets[n].Choose(in)
	ad.noteOwner(released, choice.Addr)
	if err := ad.noteInUse(choice); err != nil {
		return netip.Addr{}, false, err
	}
	if errors.Is(err, ipam.ErrExhausted) {
		return netip.Addr{}, false, nil
	}
	return choice.Addr, err == nil, err
}

// requested reports whether an address asked for by number is free. A route to it may have been set for this pod, so a
// route is only worth a warning.
func (ad *adding) requested(want netip.Addr) (netip.Addr, bool, error) {
	held, err := ad.held(want)
	if held || err != nil {
		return want, false, err
	}
	if ad.use(want) == ipam.Routed {
		ad.Log.Warn("The address that the pod asks for is in use on this node: ip route get", "addresses", want)
	}
	released, err := ad.released()
	ad.noteOwner(released, want)
	return want, err == nil, err
}

// use asks the kernel about an address. A kernel that does not answer is no reason to fail the pod.
func (ad *adding) use(addr netip.Addr) ipam.Use {
	use, err := ad.UseOf(addr)
	if err != nil && !ad.unanswered {
		ad.unanswered = true
		ad.Log.Warn("The kernel does not say whether an address is in use", "address", addr.String(), "error", err)
	}
	return use
}

// noteInUse logs and counts the free addresses that a choice passed over, once for each ADD.
func (ad *adding) noteInUse(c ipam.Choice) error {
	used := slices.DeleteFunc(append(c.Routed, c.Reached...), func(a netip.Addr) bool { return slices.Contains(ad.inUse, a) })
	if len(used) == 0 {
		return nil
	}
	ad.inUse = append(ad.inUse, used...)
	ad.Log.Warn("Free addresses are in use on this node, another one is taken: ip route get, ip neigh show", "addresses", used[:min(len(used), maxNotes)])
	return ad.tx.CountInUse(ad.conf.Network, len(used))
}

// noteOwner remembers that an address had another owner lately.
func (ad *adding) noteOwner(released persistence.Released, addr netip.Addr) {
	if released.Lately(addr) {
		ad.hadOwner = append(ad.hadOwner, addr)
	}
}

// forgetOwners makes the node forget who had the addresses of a new attachment lately. A failure is no reason to fail the
// pod.
func (ad *adding) forgetOwners() {
	if len(ad.hadOwner) == 0 {
		return
	}
	if err := ad.ForgetOwner(ad.hadOwner); err != nil {
		ad.Log.Warn("Packets of an earlier owner may reach the pod", "pod", ad.a.Owner.String(), "addresses", ad.hadOwner, "error", err)
	}
}

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

// forgetLastHolders deletes some last holders whose namespace is gone. Those of
// an IPv4 range are replaced anyway; an IPv6 range is too large for that. Each
// ADD begins at another one, because the namespaces of some can stay.
func (ad *adding) forgetLastHolders() error {
	scattered := ad.a.Seq * 0x9E3779B97F4A7C15 >> 32 // Fibonacci hashing
	some, err := ad.tx.SomeLastHolders(ad.conf.Network, forgetMost, scattered)
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
