package cni

import (
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

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
	in.Held = ad.tx.ReservationsByNamespace(ad.conf.Network)
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
