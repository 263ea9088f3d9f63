package cni_test

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// setting is a network that the model test runs on.
type setting struct {
	pool    netip.Prefix // IPv4, the smaller of the two range sets
	percent int
	refuse  bool
	quota   int // of one namespace; 0 for none
}

var settings = []setting{
	{netip.MustParsePrefix("10.1.0.0/29"), 40, false, 0},
	{netip.MustParsePrefix("10.1.0.0/28"), 25, false, 0},
	{netip.MustParsePrefix("10.1.0.0/29"), 40, true, 0},
	{netip.MustParsePrefix("10.1.0.0/28"), 25, true, 0},
	{netip.MustParsePrefix("10.1.0.0/28"), 50, false, 3},
	{netip.MustParsePrefix("10.1.0.0/28"), 50, true, 3},
}

// ipam returns the keys of the setting under ipam.
func (s setting) ipam() map[string]any {
	policy := "reclaim"
	if s.refuse {
		policy = "refuse"
	}
	keys := map[string]any{
		"ranges":             [][]map[string]string{{{"subnet": s.pool.String()}}, {{"subnet": "fd00:1::/64"}}},
		"maxReservedPercent": s.percent, "onExhaustion": policy,
	}
	if s.quota > 0 {
		keys["maxReservedPerNamespace"] = s.quota
	}
	return keys
}

// addresses returns the pool without network, gateway and broadcast address.
func (s setting) addresses() []netip.Addr {
	var all []netip.Addr
	for a := s.pool.Addr().Next().Next(); s.pool.Contains(a.Next()); a = a.Next() {
		all = append(all, a)
	}
	return all
}

// share returns the number of reservations that the network allows.
func (s setting) share() int { return (len(s.addresses())*s.percent + 99) / 100 }

// unlapsed returns the reservations of a state that have not lapsed, except those of an owner.
func (h happened) unlapsed(s state, but reservation.Owner) map[reservation.Owner]reservation.Reservation {
	left := maps.Clone(s.Reserved)
	maps.DeleteFunc(left, func(o reservation.Owner, r reservation.Reservation) bool { return o == but || h.expired(r) })
	return left
}

// counted compares the stored number of reservations, which decides about room, with the
// reservations.
func counted(h happened) error {
	if h.after.Counted != int64(len(h.after.Reserved)) {
		return fmt.Errorf("%d reservations are counted as %d", len(h.after.Reserved), h.after.Counted)
	}
	return nil
}

// staysWithinTheShare is the part of rule 2 about the share: a new reservation never exceeds
// it, and is made wherever there is room.
func staysWithinTheShare(h happened) error {
	if (h.verb != "DEL" && h.verb != "GC") || h.code != 0 || h.rollback {
		return nil
	}
	before, after := h.unlapsed(h.before, reservation.Owner{}), h.unlapsed(h.after, reservation.Owner{})
	if most := max(h.setting.share(), len(before)); len(after) > most {
		return fmt.Errorf("%s left %d reservations, may be %d", h.verb, len(after), most)
	}
	was := perNamespace(before)
	for ns, n := range perNamespace(after) {
		if h.setting.quota > 0 && n > max(h.setting.quota, was[ns]) {
			return fmt.Errorf("%s left %d reservations of namespace %s, may be %d", h.verb, n, ns, h.setting.quota)
		}
	}
	ended, known := h.before.Attached[h.of.attachment()]
	if h.verb != "DEL" || !known || ended.Retain == 0 || ended.Seq < max(h.newestSeq(), h.before.Reserved[h.of.owner()].Seq) {
		return nil // or the last life's reservation was made before, and has lapsed
	}
	others := h.unlapsed(h.before, h.of.owner())
	if _, made := after[h.of.owner()]; !made && h.room(others) {
		return fmt.Errorf("%s left no reservation beside %d others", h.of.id, len(others))
	}
	return nil
}

// room reports whether a DEL had to make a reservation while no other gives way.
func (h happened) room(others map[reservation.Owner]reservation.Reservation) bool {
	left := h.setting.share() - len(others)
	if h.overQuota(others) {
		return false
	}
	if !h.setting.refuse {
		return left > 0
	}
	return perNamespace(others)[h.of.namespace()] < 3*left
}

// overQuota reports whether the namespace has used up its quota.
func (h happened) overQuota(others map[reservation.Owner]reservation.Reservation) bool {
	return h.setting.quota > 0 && perNamespace(others)[h.of.namespace()] >= h.setting.quota
}

func perNamespace(all map[reservation.Owner]reservation.Reservation) map[string]int {
	of := map[string]int{}
	for o := range all {
		of[o.Namespace]++
	}
	return of
}

// gaveWay is the part of rule 2 for a reservation that ended early for another one.
func gaveWay(h happened, r reservation.Reservation) error {
	others := h.unlapsed(h.before, h.of.owner())
	switch {
	case h.setting.refuse:
		return fmt.Errorf("%s ended the reservation of %s, and none may give way", h.verb, r.Owner)
	case h.verb == "GC": // the states do not show the order
		if h.setting.quota > 0 && perNamespace(h.unlapsed(h.after, reservation.Owner{}))[r.Owner.Namespace] >= h.setting.quota {
			return nil
		}
		if left := len(h.unlapsed(h.after, reservation.Owner{})); left < h.setting.share() {
			return fmt.Errorf("the reservation of %s gave way although there are only %d", r.Owner, left)
		}
		return nil
	case h.verb != "DEL" || h.rollback || len(others) < h.setting.share() && !h.overQuota(others):
		return fmt.Errorf("%s ended the reservation of %s beside %d others", h.verb, r.Owner, len(others)-1)
	}
	of := perNamespace(others)
	of[h.of.namespace()]++
	if h.overQuota(others) {
		if r.Owner.Namespace != h.of.namespace() {
			return fmt.Errorf("the reservation of %s gave way for the quota of %s", r.Owner, h.of.namespace())
		}
		of = map[string]int{r.Owner.Namespace: 1} // only the order within the namespace is left to check
	}
	if most := slices.Max(slices.Collect(maps.Values(of))); of[r.Owner.Namespace] < most {
		return fmt.Errorf("the reservation of %s gave way, and not all namespaces hold fewer: %v", r.Owner, of)
	}
	if own := of[h.of.namespace()]; r.Owner.Namespace != h.of.namespace() && of[r.Owner.Namespace] <= own {
		return fmt.Errorf("the reservation of %s gave way to one of a namespace that holds as much: %v", r.Owner, of)
	}
	for other, r2 := range others {
		waited, waited2 := h.now.Since(r.Deadline.From), h.now.Since(r2.Deadline.From)
		if other.Namespace == r.Owner.Namespace && gocmp.Or(gocmp.Compare(r2.Mode, r.Mode), gocmp.Compare(waited, waited2)) < 0 {
			return fmt.Errorf("the reservation of %s gave way before that of %s", r.Owner, other)
		}
	}
	return nil
}

// squeeze is the effect that a reached share must have.
func (s setting) squeeze() string {
	if s.refuse {
		return "turned away"
	}
	return "gave way"
}

// noteSqueeze remembers that the share was reached.
func (m *model) noteSqueeze(h happened) {
	ended, known := h.before.Attached[h.of.attachment()]
	if h.verb != "DEL" || !known || ended.Retain == 0 || h.rollback || h.code != 0 {
		return
	}
	if _, made := h.after.Reserved[h.of.owner()]; !made {
		m.seen["turned away"]++
	}
	for o := range h.unlapsed(h.before, h.of.owner()) {
		if _, still := h.after.Reserved[o]; !still {
			m.seen["gave way"]++
		}
	}
}
