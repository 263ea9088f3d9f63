package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// allocate takes the next free address of each range set.
func (ad *adding) allocate() error {
	ad.entry.Outcome = outcomeNew
	for n := range ad.conf.Sets {
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
	released, err := ad.tx.Released(ad.conf.Network, ad.a.Since)
	if err != nil {
		return netip.Addr{}, false, err
	}
	in := ipam.ChooseInput{Last: cursor, Free: ad.beside.View(ad.tx.Free(ad.conf.Network)), Use: ad.use}
	if ad.conf.ReleaseDelay > 0 {
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
	held, err := ad.tx.Held(ad.conf.Network, want)
	if err == nil && !held && ad.beside.Taken != nil {
		held, err = ad.beside.Taken(want)
	}
	if held || err != nil {
		return want, false, err
	}
	if ad.use(want) == ipam.Routed {
		ad.Log.Warn("The address that the pod asks for is in use on this node: ip route get", "addresses", want)
	}
	released, err := ad.tx.Released(ad.conf.Network, ad.a.Since)
	ad.noteOwner(released, want)
	return want, err == nil, err
}

// reclaimers returns the functions that carry out one step.
func (ad *adding) reclaimers(step ipam.ReclaimStep, n int) []func() error {
	switch step {
	case ipam.DropLapsed:
		// The agent does so all the time; the plugin only needs to when it has no other address to hand out.
		return []func() error{func() error {
			_, err := lifecycle.FreeLapsed(ad.tx, ad.conf.Network, ad.a.Since)
			return err
		}}
	case ipam.DropAbandoned:
		return ad.beside.Reclaim
	case ipam.EndReservation:
		return []func() error{func() error { return ad.endReservation(ad.conf.Sets[n]) }}
	}
	return nil
}

// endReservation ends the reservation that gives way to the pod, if one does.
func (ad *adding) endReservation(set ipam.Set) error {
	if ad.conf.Refuse {
		return nil
	}
	plan, err := ad.planReclaim(set)
	r := plan.GivesWay
	if err != nil || r == nil {
		return err
	}
	ad.Log.Warn("Range set is exhausted, a reservation gives way", "rangeSet", set.String(),
		"owner", r.Owner.String(), "addresses", r.Addresses, "left", r.Deadline.Left(ad.a.Since).String(), "reason", plan.Reason)
	ad.entry.Outcome = outcomeReclaimed
	return ad.tx.Reclaim(r.Owner)
}

// firstReserved is how many reservations of a namespace are read before all.
const firstReserved = 4

// planReclaim decides which reservation gives way. The first ones of the namespace that holds most are enough, unless
// their addresses could not be handed out.
func (ad *adding) planReclaim(set ipam.Set) (plan ipam.ReclaimDecision, err error) {
	in := ipam.ReclaimInput{Now: ad.a.Since, Set: set, Namespace: ad.a.Owner.Namespace, Taken: ad.beside.Taken, InUse: ad.reservedInUse}
	if in.Held, err = ad.tx.ReservationsByNamespace(ad.conf.Network); err != nil {
		return plan, err
	}
	in.Reserved, err = ad.tx.EndingSoonest(ad.conf.Network, reservation.Richest(in.Held, in.Namespace), in.Now, firstReserved)
	if err != nil {
		return plan, err
	}
	if plan, err = ipam.PlanReclaim(in); plan.GivesWay != nil || err != nil {
		return plan, err
	}
	if in.Reserved, err = ad.tx.Reservations(ad.conf.Network); err != nil {
		return plan, err
	}
	return ipam.PlanReclaim(in)
}

// exhausted adds to host-local's words what holds the addresses and what a person can do.
func (ad *adding) exhausted(n int, err error) error {
	all, readErr := ad.tx.Reservations(ad.conf.Network)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	set, now := ad.conf.Sets[n], ad.a.Since
	reserved := ipam.ReservedIn(set, all)
	why := "pods of this node must end, or the range must grow"
	if len(reserved) > 0 {
		soonest := reserved[0].Deadline.Left(now)
		for _, r := range reserved {
			soonest = min(soonest, r.Deadline.Left(now))
		}
		because, help := "their addresses are host-local's or the gateway's", why
		if ad.conf.Refuse {
			because, help = "ipam.onExhaustion is \"refuse\"", "wait, free one with limpet-ipam release, or let the range grow"
		}
		why = fmt.Sprintf("the first for another %s, and none gives way because %s: %s", soonest.Round(time.Second), because, help)
	}
	if used := ad.inUse; len(used) > 0 {
		why += fmt.Sprintf("; %d are not in the state, but the node uses them: ip route get %s", len(used), used[0])
	}
	return fmt.Errorf("failed to allocate for range %d: %w; %d of its %d addresses are reserved: %s", n, err, len(reserved), ipam.Pods([]ipam.Set{set}), why)
}

// countExhausted counts an ADD that found no address, for the agent's metrics. The ADD's own
// transaction is undone, so this is another one.
func (p *Plugin) countExhausted(conf *netconf.Config, err error) {
	if !errors.Is(err, ipam.ErrExhausted) {
		return
	}
	_ = updateBriefly(conf, func(tx *persistence.Tx) error { return tx.CountExhausted(conf.Network) }) // the pod has its error, and a number is not worth another one
}
