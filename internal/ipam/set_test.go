package ipam_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/internal/ipam"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func aRange(subnet string, change ...func(*ipam.Range)) ipam.Range {
	r := ipam.Range{Subnet: netip.MustParsePrefix(subnet)}
	for _, c := range change {
		c(&r)
	}
	return r
}

func between(from, to string) func(*ipam.Range) {
	return func(r *ipam.Range) { r.Start, r.End = addr(from), addr(to) }
}

func TestRangeDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		in                  ipam.Range
		start, end, gateway string
		size                uint64
	}{
		"IPv4 leaves out network and broadcast": {aRange("10.1.0.0/24"), "10.1.0.1", "10.1.0.254", "10.1.0.1", 253},
		"the smallest":                          {aRange("10.1.0.0/30"), "10.1.0.1", "10.1.0.2", "10.1.0.1", 1},
		"IPv6 goes to the last":                 {aRange("fd00::/120"), "fd00::1", "fd00::ff", "fd00::1", 254},
		"a huge one has a bounded size":         {aRange("fd00::/64"), "fd00::1", "fd00::ffff:ffff:ffff:ffff", "fd00::1", 1<<62 - 1},
		"explicit edges are taken as they are":  {aRange("10.1.0.0/24", between("10.1.0.0", "10.1.0.255")), "10.1.0.0", "10.1.0.255", "10.1.0.1", 255},
		"a gateway outside frees the first": {
			aRange("10.1.0.0/24", func(r *ipam.Range) { r.Gateway = addr("192.0.2.1") }), "10.1.0.1", "10.1.0.254", "192.0.2.1", 254,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.in.Complete()
			if err != nil {
				t.Fatal(err)
			}
			want := ipam.Range{Subnet: tc.in.Subnet, Start: addr(tc.start), End: addr(tc.end), Gateway: addr(tc.gateway)}
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Size() != tc.size {
				t.Errorf("size %d, want %d", got.Size(), tc.size)
			}
		})
	}
}

// held is a view of a plain set of held addresses.
type held map[netip.Addr]bool

func (h held) FirstFree(from, to netip.Addr) (netip.Addr, bool, error) {
	for a := from; a.Compare(to) <= 0; a = a.Next() {
		if !h[a] {
			return a, true, nil
		}
	}
	return netip.Addr{}, false, nil
}

// TestNextWalksTheRing compares Next with host-local's order, in which each address is tried after the other.
func TestNextWalksTheRing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	sets, err := ipam.CompleteSets([]ipam.Set{
		{aRange("10.1.0.0/29"), aRange("10.2.0.0/29", between("10.2.0.3", "10.2.0.5")), aRange("10.3.0.0/30", func(r *ipam.Range) { r.Gateway = addr("10.3.0.2") })},
		{aRange("fd00::/125")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		var ring []netip.Addr
		for _, r := range set {
			for a := r.Start; a.Compare(r.End) <= 0; a = a.Next() {
				ring = append(ring, a)
			}
		}
		for range 5000 {
			view, at := held{}, r.IntN(len(ring)+1)
			for _, a := range ring {
				view[a] = r.IntN(4) > 0
			}
			last := addr("192.0.2.1") // in no range: the search begins at the first range
			if at < len(ring) {
				last = ring[at]
			} else {
				at = len(ring) - 1
			}
			want := netip.Addr{}
			for i := range ring {
				a := ring[(at+1+i)%len(ring)]
				if in, _ := set.Contains(a); !view[a] && a != in.Gateway {
					want = a
					break
				}
			}
			got, in, err := set.Next(last, view)
			if got != want || errors.Is(err, ipam.ErrExhausted) == want.IsValid() || (err == nil && !in.Contains(got)) {
				t.Fatalf("seed %d: after %s came %s (%v), want %s; held %v", seed, last, got, err, want, view)
			}
		}
	}
}

func TestFit(t *testing.T) {
	sets, err := ipam.CompleteSets([]ipam.Set{{aRange("10.1.0.0/24"), aRange("10.2.0.0/24")}, {aRange("fd00::/64")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		addrs []netip.Addr
		fits  bool
	}{
		"one of each set, in order":  {[]netip.Addr{addr("10.2.0.9"), addr("fd00::9")}, true},
		"in another order":           {[]netip.Addr{addr("fd00::9"), addr("10.2.0.9")}, false},
		"one too few":                {[]netip.Addr{addr("10.2.0.9")}, false},
		"one too many":               {[]netip.Addr{addr("10.2.0.9"), addr("fd00::9"), addr("fd00::a")}, false},
		"one outside":                {[]netip.Addr{addr("10.3.0.9"), addr("fd00::9")}, false},
		"none, as from before times": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := ipam.Fit(sets, tc.addrs); (err == nil) != tc.fits {
				t.Errorf("%v: %v, want fit = %t", tc.addrs, err, tc.fits)
			}
		})
	}
}
