package reservation

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// DefaultSharePercent is how much of a pool reservations may hold, unless configured
// otherwise.
const DefaultSharePercent = 50

// Limits are what a network allows those who ask for reservations.
type Limits struct {
	Share Share
	// MaxRetain caps how long a pod may ask for.
	MaxRetain time.Duration
}

// Share is how much of a pool reservations may hold.
type Share struct {
	// Pods is for how many pods the addresses may be reserved at a time.
	Pods int64
	// Refuse tells that no reservation gives way to another one.
	Refuse bool
}

// NewShare returns a share of a pool for so many pods. It is one pod at least, unless the
// share is nothing at all.
func NewShare(pool int64, percent int, refuse bool) Share {
	whole, rest := pool/100, pool%100 // the product could be too large
	return Share{Pods: whole*int64(percent) + (rest*int64(percent)+99)/100, Refuse: refuse}
}

// fairShareFactor is how many times as many reservations as are left for others a namespace may
// hold, where none gives way: three quarters of the share, if it is alone.
const fairShareFactor = 3

// HasRoom reports whether there is room for one more beside so many, whosever they are.
func (s Share) HasRoom(reserved int64) bool {
	if s.Refuse {
		return reserved < fairShareFactor*(s.Pods-reserved)
	}
	return reserved < s.Pods
}

// ShareInput is what is known when addresses are to be reserved and room is scarce.
type ShareInput struct {
	Now   Moment
	Share Share
	// New is the reservation that is asked for.
	New Reservation
	// Reserved are those of the network.
	Reserved []Reservation
}

// ShareVerdict says what becomes of a reservation that is asked for.
type ShareVerdict uint8

const (
	// ShareRefused makes none; the zero value.
	ShareRefused ShareVerdict = iota
	// ShareGranted makes it, and ends ShareDecision.Displaced.
	ShareGranted
)

// ShareDecision is the outcome of PlanShare.
type ShareDecision struct {
	Verdict ShareVerdict
	// Lapsed are reservations whose deadline has passed, which do not count.
	Lapsed []Reservation
	// Displaced is the reservation that ends before its deadline; nil for none.
	Displaced *Reservation
	// Reason says why in words; "" where there was room.
	Reason string
}

// PlanShare decides whether a reservation may be made, and which one gives way to it. The
// namespace that holds most gives one, if need be the one that asks; in it, the one that
// has waited longest for its pod, and those that insist go last.
func PlanShare(in ShareInput) ShareDecision {
	d := ShareDecision{Verdict: ShareGranted, Lapsed: Lapsed(in.Reserved, in.Now)}
	reserved := slices.DeleteFunc(Unlapsed(in.Reserved, in.Now), func(r Reservation) bool { return r.Owner == in.New.Owner }) // it is replaced
	of := map[string]int64{}
	for _, r := range reserved {
		of[r.Owner.Namespace]++
	}
	own, total := of[in.New.Owner.Namespace], int64(len(reserved))
	switch {
	case in.Share.Pods <= 0:
		return d.turnAway("the network reserves none")
	case in.Share.Refuse && own >= fairShareFactor*(in.Share.Pods-total):
		return d.turnAway(fmt.Sprintf("reservations hold addresses of %d pods, %d of namespace %s, and may hold those of %d", total, own, in.New.Owner.Namespace, in.Share.Pods))
	case in.Share.Refuse || in.Share.HasRoom(total):
		return d
	}
	of[in.New.Owner.Namespace]++
	from := richest(of, in.New.Owner.Namespace)
	candidates := slices.DeleteFunc(append(reserved, in.New), func(r Reservation) bool { return r.Owner.Namespace != from })
	first := slices.MinFunc(candidates, func(a, b Reservation) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(in.Now.Since(b.Deadline.From), in.Now.Since(a.Deadline.From)), cmp.Compare(a.Seq, b.Seq))
	})
	full := fmt.Sprintf("reservations hold addresses of %d pods, as many as they may", total)
	if first.Owner == in.New.Owner {
		return d.turnAway(full + ", and none gives way to this one")
	}
	d.Displaced, d.Reason = &first, fmt.Sprintf("%s: that of %s gives way, the first of namespace %s, which holds %d", full, first.Owner, from, of[from])
	return d
}

func (d ShareDecision) turnAway(why string) ShareDecision {
	d.Verdict, d.Reason = ShareRefused, "not reserved: "+why
	return d
}

// richest returns the namespace that holds most; of several, own before others.
func richest(of map[string]int64, own string) string {
	most := own
	for ns, n := range of {
		if n > of[most] || n == of[most] && most != own && ns < most {
			most = ns
		}
	}
	return most
}
