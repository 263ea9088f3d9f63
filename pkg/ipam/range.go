package ipam

import (
	"fmt"
	"net/netip"
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

// Overlaps reports whether some address is in both ranges.
func (r Range) Overlaps(o Range) bool {
	return r.Start.BitLen() == o.Start.BitLen() && r.Start.Compare(o.End) <= 0 && o.Start.Compare(r.End) <= 0
}

// String returns the range as host-local prints it: start-end.
func (r Range) String() string { return r.Start.String() + "-" + r.End.String() }

// lastUsable returns the last address of a subnet, and for IPv4 the last before the broadcast address.
func lastUsable(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	if last.Is4() {
		return last.Prev()
	}
	return last
}
