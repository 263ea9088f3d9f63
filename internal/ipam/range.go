package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// RangeError says what is wrong with a range, with the text of host-local.
type RangeError struct {
	// Index is the number of the range in its set.
	Index int
	// Key is the key in the configuration: subnet, rangeStart or rangeEnd.
	Key  string
	text string
}

// Error returns the text.
func (e *RangeError) Error() string { return e.text }

func rangeError(key, format string, args ...any) *RangeError {
	return &RangeError{Key: key, text: fmt.Sprintf(format, args...)}
}

// Range is a sequence of addresses inside one subnet.
type Range struct {
	Subnet netip.Prefix `json:"subnet"`
	// Start and End are the first and the last address to hand out.
	Start netip.Addr `json:"start"`
	End   netip.Addr `json:"end"`
	// Gateway is passed to the pod and never handed out. The gateway may lie outside the subnet.
	Gateway netip.Addr `json:"gateway"`
}

// Complete checks a range and fills in the defaults of host-local: the range begins after the network address, ends
// before the broadcast address (IPv6: at the last address), and its first address is the gateway.
func (r Range) Complete() (Range, *RangeError) {
	switch {
	case !r.Subnet.Addr().IsValid():
		return r, rangeError("subnet", "subnet is missing")
	case !r.Subnet.IsValid():
		return r, rangeError("subnet", "IPNet IP and Mask version mismatch")
	}
	bits := r.Subnet.Addr().BitLen()
	if bits-r.Subnet.Bits() < 2 {
		return r, rangeError("subnet", "Network %s too small to allocate from", r.Subnet)
	}
	if network := r.Subnet.Masked().Addr(); network != r.Subnet.Addr() {
		return r, rangeError("subnet", "Network has host bits set. For a subnet mask of length %d the network address is %s", r.Subnet.Bits(), network)
	}
	if !r.Gateway.IsValid() {
		r.Gateway = r.Subnet.Addr().Next()
	}
	return r.completeEnds()
}

// completeEnds fills in the ends. When both are given in the wrong order, the error names the start, as in host-local.
func (r Range) completeEnds() (Range, *RangeError) {
	start, end := r.Start, r.End
	if !start.IsValid() {
		r.Start = r.Subnet.Addr().Next()
	}
	if !end.IsValid() {
		r.End = lastUsable(r.Subnet)
	}
	behind := r.Start.BitLen() == r.End.BitLen() && r.Start.Compare(r.End) > 0
	switch {
	case !r.Subnet.Contains(r.Start), start.IsValid() && behind:
		return r, rangeError("rangeStart", "RangeStart %s not in network %s", r.Start, r.Subnet)
	case !r.Subnet.Contains(r.End), behind:
		return r, rangeError("rangeEnd", "RangeEnd %s not in network %s", r.End, r.Subnet)
	}
	return r, nil
}

// Contains reports whether the range hands out the address.
func (r Range) Contains(a netip.Addr) bool {
	return a.BitLen() == r.Start.BitLen() && r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0
}

// Prefixes returns the networks that have the addresses of the range, and no others.
func (r Range) Prefixes() (all []netip.Prefix) {
	for from := r.Start; from.IsValid() && from.Compare(r.End) <= 0; {
		p := netip.PrefixFrom(from, from.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(from, p.Bits()-1)
			if wider.Masked().Addr() != from || last(wider).Compare(r.End) > 0 {
				break
			}
			p = wider
		}
		all, from = append(all, p), last(p).Next()
	}
	return all
}

// overlaps reports whether some address is in both ranges.
func (r Range) overlaps(o Range) bool {
	return r.Start.BitLen() == o.Start.BitLen() && r.Start.Compare(o.End) <= 0 && o.Start.Compare(r.End) <= 0
}

// Size returns the number of addresses that the range can hand out, at most 1<<62.
func (r Range) Size() uint64 {
	n := distance(r.Start, r.End)
	if n < 1<<62 {
		n++
	}
	if r.Contains(r.Gateway) {
		n--
	}
	return n
}

// distance returns b-a for a ≤ b, at most 1<<62.
func distance(a, b netip.Addr) uint64 {
	x, y := a.As16(), b.As16()
	var n uint64
	for i := range x {
		if n >= 1<<54 {
			return 1 << 62
		}
		n = n<<8 + uint64(y[i]) - uint64(x[i])
	}
	return n
}

// String returns the range as host-local prints it: start-end.
func (r Range) String() string { return r.Start.String() + "-" + r.End.String() }

// lastUsable returns the last address of a subnet, and for IPv4 the last before the broadcast address.
func lastUsable(p netip.Prefix) netip.Addr {
	if end := last(p); end.Is6() {
		return end
	}
	return last(p).Prev()
}

// last returns the last address of a network.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	end, _ := netip.AddrFromSlice(b)
	return end
}

// ErrExhausted is returned when every address of a range set is held.
var ErrExhausted = errors.New("no IP addresses available in range set")

// Set is a list of ranges. A pod gets one address of the set, from any of its ranges.
type Set []Range

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
			if r.overlaps(o) {
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

// HandsOut reports whether the set can hand out the address: one of its ranges contains it, and it is no gateway.
func (s Set) HandsOut(a netip.Addr) bool {
	for i := range s {
		if s[i].Contains(a) {
			return a != s[i].Gateway
		}
	}
	return false
}

// overlaps reports whether some address is in both sets.
func (s Set) overlaps(o Set) bool {
	return slices.ContainsFunc(s, func(r Range) bool { return slices.ContainsFunc(o, r.overlaps) })
}

// String lists the ranges as host-local prints them.
func (s Set) String() string {
	names := make([]string, len(s))
	for i, r := range s {
		names[i] = r.String()
	}
	return strings.Join(names, ",")
}

// EncodeSets returns complete sets as encoding/json encodes them.
func EncodeSets(sets []Set) []byte {
	b := []byte("[")
	for i, s := range sets {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, r := range s {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"subnet":"`+r.Subnet.String()+`","start":"`+r.Start.String()+`","end":"`+r.End.String()+`","gateway":"`+r.Gateway.String()+`"}`...)
		}
		b = append(b, ']')
	}
	return append(b, ']')
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
			if s.overlaps(o) {
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

// Pods returns the number of pods for which the sets of a network have addresses. Each pod takes one address of each
// set. The number is at most 1<<53, which JSON carries exactly.
func Pods(sets []Set) int64 {
	var pods uint64
	for i, s := range sets {
		var size uint64
		for _, r := range s {
			size += min(r.Size(), 1<<53)
		}
		if i == 0 || size < pods {
			pods = size
		}
	}
	return int64(min(pods, 1<<53))
}
