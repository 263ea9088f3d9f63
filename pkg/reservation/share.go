package reservation

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// DefaultSharePercent is the default of how much of a pool reservations may hold.
const DefaultSharePercent = 50

// Limits are the limits of a network for reservations.
type Limits struct {
	Share Share
	// MaxRetain caps how long a pod may ask for.
	MaxRetain time.Duration
}

// Share is the part of a pool that reservations may hold.
type Share struct {
	// Pods is the number of pods for which addresses may be reserved at a time.
	Pods int64
	// Refuse is true when no reservation gives way to another one.
	Refuse bool
}

// NewShare returns a percentage of a pool, given as a number of pods. The share is at least one pod, unless the
// percentage is 0.
func NewShare(pool int64, percent int, refuse bool) Share {
	whole, rest := pool/100, pool%100 // pool*percent could overflow
	return Share{Pods: whole*int64(percent) + (rest*int64(percent)+99)/100, Refuse: refuse}
}

// fairShareFactor limits a namespace when Share.Refuse is set: the namespace may hold at most so many times the free part
// of the share. Alone, a namespace gets three quarters of the share.
const fairShareFactor = 3

// HasRoom reports whether one more reservation fits beside the given number, for any namespace.
func (s Share) HasRoom(reserved int64) bool {
	if s.Refuse {
		return reserved < fairShareFactor*(s.Pods-reserved)
	}
	return reserved < s.Pods
}

// ShareInput holds the facts about a reservation that is asked for.
type ShareInput struct {
	Now   Moment
	Share Share
	// New is the reservation that is asked for.
	New Reservation
	// Reserved are the reservations of the network.
	Reserved []Reservation
}

// ShareVerdict says whether a reservation is made.
type ShareVerdict uint8

const (
	// ShareRefused makes no reservation; the zero value.
	ShareRefused ShareVerdict = iota
	// ShareGranted makes the reservation, and deletes ShareDecision.Displaced.
	ShareGranted
)

// ShareDecision is the outcome of PlanShare.
type ShareDecision struct {
	Verdict ShareVerdict
	// Lapsed are reservations whose deadline has passed: they do not count and are deleted.
	Lapsed []Reservation
	// Displaced is the reservation that is deleted before its deadline; nil for none.
	Displaced *Reservation
	// Reason says why in words; "" when there was room.
	Reason string
}

// PlanShare decides whether a reservation is made, and which other reservation gives way. The namespace with the most
// reservations gives one, which can be the asking namespace. In that namespace the reservation that has waited longest
// gives way; reservations with mode required come last.
func PlanShare(in ShareInput) ShareDecision {
	d := ShareDecision{Verdict: ShareGranted, Lapsed: Lapsed(in.Reserved, in.Now)}
	reserved := slices.DeleteFunc(Unlapsed(in.Reserved, in.Now), func(r Reservation) bool { return r.Owner == in.New.Owner }) // the new one replaces it
	of := map[string]int64{}
	for _, r := range reserved {
		of[r.Owner.Namespace]++
	}
	own, total := of[in.New.Owner.Namespace], int64(len(reserved))
	switch {
	case in.Share.Pods <= 0:
		return d.refuse("the network reserves none")
	case in.Share.Refuse && own >= fairShareFactor*(in.Share.Pods-total):
		return d.refuse(fmt.Sprintf("reservations hold addresses for %d pods, %d of namespace %s, and may hold them for %d", total, own, in.New.Owner.Namespace, in.Share.Pods))
	case in.Share.Refuse || in.Share.HasRoom(total):
		return d
	}
	of[in.New.Owner.Namespace]++
	from := richest(of, in.New.Owner.Namespace)
	candidates := slices.DeleteFunc(append(reserved, in.New), func(r Reservation) bool { return r.Owner.Namespace != from })
	first := slices.MinFunc(candidates, func(a, b Reservation) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(in.Now.Since(b.Deadline.From), in.Now.Since(a.Deadline.From)), cmp.Compare(a.Seq, b.Seq))
	})
	full := fmt.Sprintf("reservations hold addresses for %d pods, which is all of the share", total)
	if first.Owner == in.New.Owner {
		return d.refuse(full + ", and none gives way to this one")
	}
	d.Displaced, d.Reason = &first, fmt.Sprintf("%s: the reservation of %s gives way, because namespace %s holds most, %d", full, first.Owner, from, of[from])
	return d
}

// refuse returns the decision to make no reservation.
func (d ShareDecision) refuse(why string) ShareDecision {
	d.Verdict, d.Reason = ShareRefused, "not reserved: "+why
	return d
}

// richest returns the namespace with the most reservations. Among equals, own comes first, then the order of names.
func richest(of map[string]int64, own string) string {
	most := own
	for ns, n := range of {
		if n > of[most] || n == of[most] && most != own && ns < most {
			most = ns
		}
	}
	return most
}
