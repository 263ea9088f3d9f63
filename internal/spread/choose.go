package spread

import (
	"cmp"
	"fmt"
	"maps"
)

// Choose returns the subset of a pod that is being created. A pod keeps the subset of its
// earlier entry, or else goes to the subset of its recorded node, or else to the first subset
// with a free slot.
//
// A required place overrules maxima and skips. A pod whose place is in no subset gets none.
//
// A surplus creation gives up the slot of the oldest entry, and chooses then.
func Choose(in Input) Decision {
	c := choice{spread: in.Spread, slots: in.Slots}
	home := Home{in.Node, in.Place, in.Room}.inPlace()
	areas := newAreas(in.Spread, in.Pod)
	if e := in.Spread.subset(in.Earlier); e != nil && c.takes(e) && (len(home.Place) == 0 || newArea(e, in.Pod).holds(home)) {
		return c.decide(e, ReasonEarlier, fmt.Sprintf("the pod has an entry in subset %s", e.Name))
	}
	if in.Surplus && in.Oldest != nil {
		c.replace(*in.Oldest)
	}
	if d, decided := c.returns(areas, home); decided {
		return d
	}
	d := c.first()
	if home.known() && d.Subset != "" {
		d.Unpinned = true
		d.Reason, d.Message = away(areas, home, d.Subset)
	}
	return d
}

// returns decides for the subset of a pod's home; false where the spread overrules the home.
func (c choice) returns(areas []area, home Home) (d Decision, decided bool) {
	if !home.known() {
		return d, false
	}
	var full *Subset
	for _, a := range areas {
		if !a.holds(home) || !a.takes(home) {
			continue
		}
		if c.free(a.Subset) {
			d = c.decide(a.Subset, ReasonReturns, fmt.Sprintf("subset %s contains %s", a.Name, home.name()))
			d.Home = "" // the pod returns, whatever other subsets take
			return d, true
		}
		full = cmp.Or(full, a.Subset)
	}
	switch {
	case len(home.Place) == 0:
		return d, false
	case full == nil:
		return Decision{Reason: ReasonNoSubset, Message: outside(home)}, true
	}
	d = c.decide(full, ReasonRequired, overfull(full.Name, home))
	d.Home = ""
	return d, true
}

func outside(home Home) string {
	return fmt.Sprintf("no subset contains %s, which the pod requires", home.name())
}

func overfull(subset string, home Home) string {
	return fmt.Sprintf("subset %s is full, and gets the pod all the same: it contains %s, which the pod requires", subset, home.name())
}

// choice is the spread and its slots, as the choice counts them.
type choice struct {
	spread   Spread
	slots    map[string]Slots
	replaces string
}

// replace counts without an entry, whose place the new one takes.
func (c *choice) replace(e Entry) {
	c.replaces = e.Key
	s := c.slots[e.Subset]
	s.Booked = max(s.Booked-1, 0)
	c.slots = maps.Clone(c.slots)
	if c.slots == nil {
		c.slots = map[string]Slots{}
	}
	c.slots[e.Subset] = s
}

// free reports whether a subset has a free slot.
func (c choice) free(s *Subset) bool {
	used := c.slots[s.Name]
	return s.Max == nil || int64(used.Pods)+int64(used.Booked) < int64(*s.Max)
}

// takes reports whether a subset takes a pod now.
func (c choice) takes(s *Subset) bool { return !s.Unschedulable && c.free(s) }

// first decides for the first subset that takes the pod.
func (c choice) first() Decision {
	for i := range c.spread.Subsets {
		if s := &c.spread.Subsets[i]; c.takes(s) {
			return c.decide(s, ReasonFilled, fmt.Sprintf("subset %s has a free slot", s.Name))
		}
	}
	return Decision{Reason: ReasonNoneFits, Message: noneFits(c.spread)}
}

func noneFits(s Spread) string {
	return fmt.Sprintf("no subset of WorkloadSpread %s takes the pod: each is full or takes no pods for now", s.Name)
}

func (c choice) decide(s *Subset, reason Reason, message string) Decision {
	d := Decision{Subset: s.Name, Book: s.Max != nil, Reason: reason, Message: message}
	if d.Book {
		d.Replaces = c.replaces
	}
	for i := range c.spread.Subsets {
		before := &c.spread.Subsets[i]
		if before.Name == s.Name {
			break
		}
		if before.Unschedulable && c.free(before) {
			d.Home = before.Name
			break
		}
	}
	return d
}

// Passes reports whether a decision passes over an earlier subset because that one is full.
func (d Decision) Passes(in Input) bool {
	c := choice{spread: in.Spread, slots: in.Slots}
	for i := range in.Spread.Subsets {
		s := &in.Spread.Subsets[i]
		if s.Name == d.Subset {
			return false
		}
		if !s.Unschedulable && !c.free(s) {
			return true
		}
	}
	return false
}

// away tells why a pod does not return home.
func away(areas []area, home Home, subset string) (Reason, string) {
	reason, where := ReasonNoSubset, ""
	for _, a := range areas {
		if !a.holds(home) {
			continue
		}
		if where = a.Name; !a.Unschedulable {
			reason = ReasonFull
			break
		}
		reason = ReasonSkipped
	}
	switch reason {
	case ReasonFull:
		return reason, fmt.Sprintf("the pod goes to subset %s and not to %s: subset %s is full", subset, home.name(), where)
	case ReasonSkipped:
		return reason, fmt.Sprintf("the pod goes to subset %s and not to %s: no pods can be scheduled in subset %s", subset, home.name(), where)
	default:
		return reason, fmt.Sprintf("the pod goes to subset %s and not to %s: no subset contains it", subset, home.name())
	}
}
