package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Use says what the kernel of the node does with an address that the state has as free.
type Use uint8

const (
	// Unused is an address that the kernel does not know.
	Unused Use = iota
	// Reached is an address for which an interface has answered. A pod can answer for addresses that it does not
	// have, so a choice only prefers other addresses.
	Reached
	// Routed is an address of the machine itself, or an address with a route of its own, as a pod of ptp has.
	Routed
)

const (
	// maxReached is the number of Reached addresses that a choice passes over. A machine that answers for more
	// addresses is no reason to look further.
	maxReached = 64
	// maxRouted is the number of Routed addresses that a choice passes over. Each costs a question to the kernel.
	maxRouted = 1024
)

// errTooManyInUse ends a choice that has passed over maxRouted addresses.
var errTooManyInUse = errors.New("too many addresses are in use")

// ChooseInput holds the facts for the choice of an address of a set.
type ChooseInput struct {
	// Last is the address last handed out; not valid when there is none.
	Last netip.Addr
	Free View
	// Released are addresses whose release delay is not over, the earliest released first. If an address is there twice,
	// the later one counts.
	Released []netip.Addr
	// Kept are addresses that other pods had, and may have again. They are taken after all others whose release delay is over.
	Kept []netip.Addr
	// Use asks the kernel about an address; nil for no question.
	Use func(netip.Addr) Use
}

// View tells which addresses are free: neither attached nor reserved.
type View interface {
	// FirstFree returns the lowest free address within [from, to].
	FirstFree(from, to netip.Addr) (addr netip.Addr, found bool, err error)
}

// Choice is the outcome of Choose.
type Choice struct {
	Addr netip.Addr
	// Reached and Routed are free addresses that were passed over because of their use.
	Reached, Routed []netip.Addr
	// Early is true when the release delay of the address is not over: no other address is free.
	Early bool
}

// Choose returns the next free address in round-robin order whose release delay is over, which no other pod may have again,
// and which the kernel does not use; else one that another pod may have again. When there is none, the address that was released earliest is chosen, and after it one that an interface answers
// for. An address with a route of its own is never chosen. The error is ErrExhausted when no address is left; the
// choice then tells the addresses in use.
func (s Set) Choose(in ChooseInput) (Choice, error) {
	c := choosing{ChooseInput: in, set: s}
	addr, _, err := s.Next(in.Last, Without(in.Free, c.skip))
	if errors.Is(err, ErrExhausted) && len(c.Kept) > 0 {
		c.Kept = nil
		addr, _, err = s.Next(in.Last, Without(in.Free, c.skip))
	}
	if errors.Is(err, ErrExhausted) || errors.Is(err, errTooManyInUse) {
		addr, err = c.fallBack()
	}
	c.Addr = addr
	return c.Choice, err
}

// choosing is one choice.
type choosing struct {
	ChooseInput
	Choice

	set Set
}

// skip reports whether another address is preferred to a free one.
func (c *choosing) skip(a netip.Addr) (bool, error) {
	for _, others := range [][]netip.Addr{c.Released, c.Kept, c.Reached, c.Routed} {
		if slices.Contains(others, a) {
			return true, nil
		}
	}
	switch use := c.use(a); {
	case use == Routed:
		c.Routed = append(c.Routed, a)
	case use == Reached && len(c.Reached) < maxReached:
		c.Reached = append(c.Reached, a)
	default:
		return false, nil
	}
	if len(c.Routed) == maxRouted {
		return false, errTooManyInUse
	}
	return true, nil
}

// use asks the kernel about an address. The gateway, which Next never returns, mostly is an address of the node.
func (c *choosing) use(a netip.Addr) Use {
	if c.Use == nil || !c.set.HandsOut(a) {
		return Unused
	}
	return c.Use(a)
}

// fallBack chooses an address although another one would be better. An interface may still answer for an address that
// was just released, so only a route counts there.
func (c *choosing) fallBack() (netip.Addr, error) {
	for i, a := range c.Released {
		if !c.set.HandsOut(a) || slices.Contains(c.Released[i+1:], a) {
			continue
		}
		_, free, err := c.Free.FirstFree(a, a)
		if err != nil {
			return netip.Addr{}, err
		}
		if free && c.use(a) != Routed {
			c.Early = true
			return a, nil
		}
		if free {
			c.Routed = append(c.Routed, a)
		}
	}
	if len(c.Reached) == 0 {
		return netip.Addr{}, fmt.Errorf("%w: %s", ErrExhausted, c.set)
	}
	first := c.Reached[0]
	c.Reached = c.Reached[1:]
	return first, nil
}

// Without returns a view of the free addresses that the function does not skip.
func Without(free View, skip func(netip.Addr) (bool, error)) View { return without{free, skip} }

type without struct {
	free View
	skip func(netip.Addr) (bool, error)
}

// FirstFree returns the lowest free address within [from, to] that is not skipped.
func (v without) FirstFree(from, to netip.Addr) (netip.Addr, bool, error) {
	for {
		a, found, err := v.free.FirstFree(from, to)
		if err != nil || !found {
			return a, false, err
		}
		skipped, err := v.skip(a)
		if err != nil || !skipped {
			return a, err == nil, err
		}
		if a == to {
			return a, false, nil
		}
		from = a.Next()
	}
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
