package board

import (
	"math/big"
	"net/netip"
	"strings"
)

// Range is addresses that follow each other.
type Range struct {
	First string `json:"first"`
	// Count is the number of addresses in decimal digits: an IPv6 range has more than fit in a number.
	Count string `json:"count"`

	first, last netip.Addr
}

// parse reads a range set as an agent writes it: start-end,start-end. Ranges that cannot be read are left out.
func parse(set string) (ranges []Range, size *big.Int) {
	size = new(big.Int)
	for text := range strings.SplitSeq(set, ",") {
		from, to, _ := strings.Cut(text, "-")
		first, ok := address(from)
		last, also := address(to)
		if !ok || !also || first.BitLen() != last.BitLen() || last.Less(first) {
			continue
		}
		count := new(big.Int).Sub(number(last), number(first))
		count.Add(count, big.NewInt(1))
		size.Add(size, count)
		ranges = append(ranges, Range{First: first.String(), Count: count.String(), first: first, last: last})
	}
	return ranges, size
}

// plain reports whether the page can count with an address: one that has no zone, and no second form.
func plain(a netip.Addr) bool { return a.Zone() == "" && !a.Is4In6() }

// address reads an address with which the page can count.
func address(text string) (a netip.Addr, ok bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil && plain(a)
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

func (r Range) contains(a netip.Addr) bool {
	return a.BitLen() == r.first.BitLen() && !a.Less(r.first) && !r.last.Less(a)
}
