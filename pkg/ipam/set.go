package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrExhausted is returned when every address of a range set is held.
var ErrExhausted = errors.New("no IP addresses available in range set")

// Set is a list of ranges. A pod gets one address of the set, from any of its ranges.
type Set []Range

// View tells which addresses are free: neither attached nor reserved.
type View interface {
	// FirstFree returns the lowest free address within [from, to].
	FirstFree(from, to netip.Addr) (addr netip.Addr, found bool, err error)
}

// Complete checks a set and fills in the defaults of its ranges.
func (s Set) Complete() (Set, error) {
	if len(s) == 0 {
		return nil, errors.New("empty range set")
	}
	done := make(Set, 0, len(s))
	for i, r := range s {
		r, err := r.Complete()
		if err != nil {
			err.Index = i
			return nil, err
		}
		done = append(done, r)
		if r.Start.BitLen() != done[0].Start.BitLen() {
			return nil, errors.New("mixed address families")
		}
	}
	for i, r := range done {
		for _, o := range done[i+1:] {
			if r.Overlaps(o) {
				return nil, fmt.Errorf("subnets %s and %s overlap", r, o)
			}
		}
	}
	return done, nil
}

// Contains returns the range of the set that hands out the address.
func (s Set) Contains(a netip.Addr) (Range, bool) {
	i := slices.IndexFunc(s, func(r Range) bool { return r.Contains(a) })
	if i < 0 {
		return Range{}, false
	}
	return s[i], true
}

// handsOut reports whether the set can hand out the address: one of its ranges contains it, and it is no gateway.
func (s Set) handsOut(a netip.Addr) bool {
	for i := range s {
		if s[i].Contains(a) {
			return a != s[i].Gateway
		}
	}
	return false
}

// Overlaps reports whether some address is in both sets.
func (s Set) Overlaps(o Set) bool {
	return slices.ContainsFunc(s, func(r Range) bool { return slices.ContainsFunc(o, r.Overlaps) })
}

// String lists the ranges as host-local prints them.
func (s Set) String() string {
	names := make([]string, len(s))
	for i, r := range s {
		names[i] = r.String()
	}
	return strings.Join(names, ",")
}

// Next returns the free address that follows last in round-robin order, and its range. The address last handed out is
// therefore the last candidate. The error is ErrExhausted when no address is free.
func (s Set) Next(last netip.Addr, view View) (netip.Addr, Range, error) {
	for _, t := range s.order(last) {
		for from := t.from; from.IsValid(); {
			addr, found, err := view.FirstFree(from, t.to)
			if err != nil {
				return netip.Addr{}, Range{}, err
			}
			if !found {
				break
			}
			if addr != t.in.Gateway {
				return addr, t.in, nil
			}
			if addr == t.to {
				break
			}
			from = addr.Next()
		}
	}
	return netip.Addr{}, Range{}, fmt.Errorf("%w: %s", ErrExhausted, s)
}

// stretch is a sequence of addresses to try within one range.
type stretch struct {
	in       Range
	from, to netip.Addr
}

// order lists the stretches to try, beginning behind last: the rest of the range of last, the other ranges in turn, and
// the beginning of the range of last, including last.
func (s Set) order(last netip.Addr) []stretch {
	at := slices.IndexFunc(s, func(r Range) bool { return r.Contains(last) })
	if at < 0 {
		at, last = 0, netip.Addr{}
	}
	var todo []stretch
	for i := range s {
		r := s[(at+i)%len(s)]
		switch {
		case i > 0 || !last.IsValid():
			todo = append(todo, stretch{r, r.Start, r.End})
		case last != r.End:
			todo = append(todo, stretch{r, last.Next(), r.End})
		}
	}
	if last.IsValid() {
		todo = append(todo, stretch{s[at], s[at].Start, last})
	}
	return todo
}

// SetError says what is wrong with a range set, with the text of host-local.
type SetError struct {
	// Index is the number of the set.
	Index int
	err   error
}

// Error returns the text.
func (e *SetError) Error() string { return fmt.Sprintf("invalid range set %d: %v", e.Index, e.err) }

// Unwrap returns the *RangeError when a single range is wrong.
func (e *SetError) Unwrap() error { return e.err }

// CompleteSets checks the sets of one network, each for itself. The error is a *SetError.
func CompleteSets(sets []Set) ([]Set, error) {
	done := make([]Set, 0, len(sets))
	for i, s := range sets {
		s, err := s.Complete()
		if err != nil {
			return nil, &SetError{Index: i, err: err}
		}
		done = append(done, s)
	}
	return done, nil
}

// OverlapError says which two sets of one network overlap, with the text of host-local.
type OverlapError struct {
	// Index is the number of the later set, and With the number of the earlier set.
	Index, With int
}

// Error returns the text.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("range set %d overlaps with %d", e.With, e.Index)
}

// Disjoint returns an *OverlapError when two sets of one network overlap.
func Disjoint(sets []Set) error {
	for i, s := range sets {
		for j, o := range sets[i+1:] {
			if s.Overlaps(o) {
				return &OverlapError{Index: i + j + 1, With: i}
			}
		}
	}
	return nil
}

// Fit returns nil when the sets can hand out addresses, one of each set in order, and otherwise says why not.
func Fit(sets []Set, addrs []netip.Addr) error {
	if len(addrs) != len(sets) {
		return fmt.Errorf("%d addresses for %d range sets", len(addrs), len(sets))
	}
	for i, a := range addrs {
		if _, ok := sets[i].Contains(a); !ok {
			return fmt.Errorf("%s is not in range set %s", a, sets[i])
		}
	}
	return nil
}
