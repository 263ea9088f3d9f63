package reservation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

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

// HasRoomOf reports whether a namespace may have one more reservation beside the given number of its own.
func (s Share) HasRoomOf(own int64) bool { return s.PerNamespace == 0 || own < s.PerNamespace }

// ShareInput holds the facts about a reservation that is asked for.
type ShareInput struct {
	Now   Moment
	Share Share
	// New is the reservation that is asked for.
	New Reservation
	// Held counts the reservations of the network by namespace, without lapsed ones and the reservation that New
	// replaces; nil to count Reserved.
	Held map[string]int64
	// Reserved are the reservations of the network. Where Held counts them, the lapsed ones are enough, and from each
	// namespace of GivesOne the reservation that gives way first.
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
	// OverQuota is true when the namespace had no room, whether the share had room or not.
	OverQuota bool
	// Reason says why in words; "" when there was room.
	Reason string
}

// PlanShare decides whether a reservation is made, and which other reservation gives way. A namespace that has used up
// its quota gives one of its own. If the share is used up, the namespace with the most reservations gives one, which can
// be the asking namespace. In that namespace the reservation that has waited longest gives way; reservations with mode
// required come last, and then follow. Those on loan never do.
func PlanShare(in ShareInput) ShareDecision {
	d := ShareDecision{Verdict: ShareGranted, Lapsed: Lapsed(in.Reserved, in.Now)}
	reserved := slices.DeleteFunc(Unlapsed(in.Reserved, in.Now), func(r Reservation) bool { return r.Owner == in.New.Owner }) // the new one replaces it
	of, total := maps.Clone(in.Held), int64(0)
	if of == nil {
		of = Count(reserved)
	}
	for _, n := range of {
		total += n
	}
	asking := in.New.Owner.Namespace
	own := of[asking]
	d.OverQuota = !in.Share.HasRoomOf(own)
	full := fmt.Sprintf("reservations hold addresses for %d pods, which is all of the share", total)
	if d.OverQuota {
		full = fmt.Sprintf("reservations of namespace %s hold addresses for %d pods, which is all that a namespace may have", asking, own)
	}
	switch {
	case in.Share.Pods <= 0:
		return d.refuse("the network reserves none")
	case d.OverQuota && in.Share.Refuse:
		return d.refuse(full)
	case in.Share.Refuse && own >= fairShareFactor*(in.Share.Pods-total):
		return d.refuse(fmt.Sprintf("reservations hold addresses for %d pods, %d of namespace %s, and may hold them for %d", total, own, asking, in.Share.Pods))
	case in.Share.Refuse || !d.OverQuota && in.Share.HasRoom(total):
		return d
	}
	of[asking]++
	from := asking
	if !d.OverQuota {
		from = Richest(of, asking)
	}
	first := firstToGiveWay(append(reserved, in.New), from, in.Now)
	if first == nil || first.Owner == in.New.Owner {
		return d.refuse(full + ", and none gives way to this one")
	}
	d.Displaced, d.Reason = first, fmt.Sprintf("%s: the reservation of %s gives way", full, first.Owner)
	if !d.OverQuota {
		d.Reason += fmt.Sprintf(", because namespace %s holds most, %d", from, of[from])
	}
	return d
}

// Count counts reservations by namespace.
func Count(all []Reservation) map[string]int64 {
	of := map[string]int64{}
	for _, r := range all {
		of[r.Owner.Namespace]++
	}
	return of
}

// GivesOne returns the namespaces of which one gives a reservation to a namespace that asks, by the numbers that they
// have without it.
func GivesOne(held map[string]int64, asking string) []string {
	of := maps.Clone(held)
	of[asking]++
	if most := Richest(of, asking); most != asking {
		return []string{asking, most}
	}
	return []string{asking}
}

// firstToGiveWay returns the reservation of a namespace that gives way before the others; nil when all are on loan.
func firstToGiveWay(all []Reservation, namespace string, now Moment) *Reservation {
	candidates := slices.DeleteFunc(all, func(r Reservation) bool { return r.Owner.Namespace != namespace || r.OnLoan() })
	if len(candidates) == 0 {
		return nil
	}
	first := slices.MinFunc(candidates, func(a, b Reservation) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(now.Since(b.Deadline.From), now.Since(a.Deadline.From)), cmp.Compare(a.Seq, b.Seq))
	})
	return &first
}

// refuse returns the decision to make no reservation.
func (d ShareDecision) refuse(why string) ShareDecision {
	d.Verdict, d.Reason = ShareRefused, "not reserved: "+why
	return d
}

// Richest returns the namespace with the most reservations. Among equals, own comes first, then the order of names.
func Richest(of map[string]int64, own string) string {
	most := own
	for ns, n := range of {
		if n > of[most] || n == of[most] && most != own && ns < most {
			most = ns
		}
	}
	return most
}
