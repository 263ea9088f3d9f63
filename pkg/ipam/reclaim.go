package ipam

import (
	"cmp"
	"net/netip"
	"slices"

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
	// EndSoonest ends one reservation before its deadline.
	EndSoonest
)

// ReclaimSteps returns the steps in the order in which an ADD tries them: no pod loses an
// address by the earlier ones. An ADD that asks for an address by number never ends a
// reservation (rule 2).
func ReclaimSteps(byNumber bool) []ReclaimStep {
	steps := []ReclaimStep{DropLapsed, DropAbandoned}
	if byNumber {
		return steps
	}
	return append(steps, EndSoonest)
}

// ReclaimInput holds the facts when a range set is exhausted.
type ReclaimInput struct {
	Now reservation.Moment
	Set Set
	// Refuse is true when no reservation gives way.
	Refuse bool
	// Reserved are the reservations of the network.
	Reserved []reservation.Reservation
	// Taken reports whether another plugin holds an address; nil when there is no other plugin.
	Taken func(netip.Addr) (bool, error)
	// InUse reports whether a network namespace still has an address of a reservation; nil when none does.
	InUse func(reservation.Reservation) bool
}

// PlanReclaim returns the reservation that gives way to a pod: the reservation that ends soonest, and
// reservations with mode "required" last. A reservation whose addresses the set could not
// hand out anyway is skipped. The result is nil when no reservation gives way.
func PlanReclaim(in ReclaimInput) (*reservation.Reservation, error) {
	if in.Refuse {
		return nil, nil
	}
	held := ReservedIn(in.Set, in.Reserved)
	slices.SortFunc(held, func(a, b reservation.Reservation) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Deadline.Left(in.Now), b.Deadline.Left(in.Now)))
	})
	for _, r := range held {
		if in.InUse != nil && in.InUse(r) {
			continue
		}
		useful, err := in.useful(r.Addresses)
		if err != nil {
			return nil, err
		}
		if useful {
			return &r, nil
		}
	}
	return nil, nil
}

// useful reports whether the set could hand out one of the addresses once no reservation
// holds it: the address is not the gateway by now, and nothing outside holds it.
func (in ReclaimInput) useful(addrs []netip.Addr) (bool, error) {
	for _, a := range addrs {
		r, contains := in.Set.Contains(a)
		if !contains || a == r.Gateway {
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
	return slices.DeleteFunc(slices.Clone(all), func(r reservation.Reservation) bool {
		return !slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool {
			_, in := set.Contains(a)
			return in
		})
	})
}
