package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// ReclaimStep is a way to free addresses for an ADD that finds none.
type ReclaimStep uint8

const (
	// DropLapsed frees reservations whose deadline has passed.
	DropLapsed ReclaimStep = iota
	// DropAbandoned frees addresses that the state or another plugin holds for containers
	// that are gone.
	DropAbandoned
	// EndReservation ends one reservation before its deadline.
	EndReservation
)

// ReclaimSteps returns the steps in the order in which an ADD tries them: no pod loses an
// address by the earlier ones. An ADD that asks for an address by number never ends a
// reservation (rule 2).
func ReclaimSteps(byNumber bool) []ReclaimStep {
	steps := []ReclaimStep{DropLapsed, DropAbandoned}
	if byNumber {
		return steps
	}
	return append(steps, EndReservation)
}

// ReclaimInput holds the facts when a range set is exhausted.
type ReclaimInput struct {
	Now reservation.Moment
	Set Set
	// Refuse is true when no reservation gives way.
	Refuse bool
	// Namespace is the namespace of the pod that needs an address.
	Namespace string
	// Held counts the reservations of the network by namespace; nil to count Reserved.
	Held map[string]int64
	// Reserved are the reservations of the network. Where Held counts them, those of the namespace that holds most are
	// enough, from the one that gives way first on. A decision without a reservation then needs all of them.
	Reserved []reservation.Reservation
	// Taken reports whether another plugin holds an address; nil when there is no other plugin.
	Taken func(netip.Addr) (bool, error)
	// InUse reports whether a network namespace still has an address of a reservation; nil when none does.
	InUse func(reservation.Reservation) bool
}

// ReclaimDecision is the outcome of PlanReclaim.
type ReclaimDecision struct {
	// GivesWay is the reservation that ends before its deadline; nil for none.
	GivesWay *reservation.Reservation
	// Reason says in words why this one; "" for none.
	Reason string
}

// candidate is a reservation that may give way.
type candidate struct {
	*reservation.Reservation

	held int64 // reservations of its namespace
	own  bool  // the pod that needs an address is in its namespace
	left time.Duration
}

// PlanReclaim decides which reservation gives way to a pod. The namespace that has most reservations of the network gives
// one of the set; among equals the namespace of the pod comes first, then the order of names. In that namespace the
// reservation that ends soonest gives way, reservations with mode "required" come last, and those on loan never give way.
// So a namespace loses no reservation to the pods of one that has more. A reservation whose addresses the set could not hand out anyway is skipped.
func PlanReclaim(in ReclaimInput) (ReclaimDecision, error) {
	if in.Refuse {
		return ReclaimDecision{}, nil
	}
	for _, c := range in.candidates() {
		if in.InUse != nil && in.InUse(*c.Reservation) {
			continue
		}
		useful, err := in.useful(c.Addresses)
		if err != nil {
			return ReclaimDecision{}, err
		}
		if useful {
			return ReclaimDecision{
				GivesWay: c.Reservation,
				Reason:   fmt.Sprintf("namespace %s holds most reservations, %d", c.Owner.Namespace, c.held),
			}, nil
		}
	}
	return ReclaimDecision{}, nil
}

// candidates returns the reservations of the set in the order in which they give way.
func (in ReclaimInput) candidates() []*candidate {
	of := in.Held
	if of == nil {
		of = reservation.Count(in.Reserved)
	}
	var all []*candidate
	for i := range in.Reserved {
		r := &in.Reserved[i]
		if in.Set.holdsAny(r.Addresses) && !r.OnLoan() {
			all = append(all, &candidate{Reservation: r, own: r.Owner.Namespace == in.Namespace, left: r.Deadline.Left(in.Now)})
		}
	}
	for i := range all {
		all[i].held = of[all[i].Owner.Namespace]
	}
	slices.SortFunc(all, func(a, b *candidate) int { // pointers: the binary has a sort of those already
		if order := cmp.Compare(b.held, a.held); order != 0 {
			return order
		}
		if a.own != b.own {
			if a.own {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Owner.Namespace, b.Owner.Namespace), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.left, b.left), cmp.Compare(a.Seq, b.Seq))
	})
	return all
}

// holdsAny reports whether one of the addresses is in the set.
func (s Set) holdsAny(addrs []netip.Addr) bool {
	return slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		_, in := s.Contains(a)
		return in
	})
}

// useful reports whether the set could hand out one of the addresses once no reservation
// holds it: the address is not the gateway by now, and nothing outside holds it.
func (in ReclaimInput) useful(addrs []netip.Addr) (bool, error) {
	for _, a := range addrs {
		if !in.Set.HandsOut(a) {
			continue
		}
		if in.Taken == nil {
			return true, nil
		}
		if taken, err := in.Taken(a); !taken || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// ReservedIn returns the reservations that hold an address of a set.
func ReservedIn(set Set, all []reservation.Reservation) []reservation.Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r reservation.Reservation) bool { return !set.holdsAny(r.Addresses) })
}
