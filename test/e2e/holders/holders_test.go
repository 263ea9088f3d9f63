package holders_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/test/e2e/holders"
)

// printed is the output for a sandbox with both families, and for one that had just ended.
const printed = `netns /run/netns/cni-a
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.244.1.0/24 2 0 2
        |-- 10.244.1.1
           /32 link UNICAST
        |-- 10.244.1.7
           /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
Local:
        |-- 10.244.1.7
           /32 host LOCAL
00000000000000000000000000000001 01 80 10 80       lo
fd000010024400010000000000000007 02 40 00 80     eth0
fe80000000000000a0b1c2fffe0d0e0f 02 40 20 80     eth0
netns /run/netns/cni-b
`

func TestParse(t *testing.T) {
	want := []holders.Sighting{
		{NetNS: "/run/netns/cni-a", Addrs: []netip.Addr{netip.MustParseAddr("10.244.1.7"), netip.MustParseAddr("fd00:10:244:1::7")}},
		{NetNS: "/run/netns/cni-b"},
	}
	if diff := cmp.Diff(want, holders.Parse(printed), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestTwice(t *testing.T) {
	in := func(ns string, addrs ...string) holders.Sighting {
		s := holders.Sighting{NetNS: ns}
		for _, a := range addrs {
			s.Addrs = append(s.Addrs, netip.MustParseAddr(a))
		}
		return s
	}
	tests := map[string]struct {
		seen []holders.Sighting
		want []string
	}{
		"each sandbox has an address of its own": {
			seen: []holders.Sighting{in("a", "10.0.0.1"), in("b", "10.0.0.2"), in("a", "10.0.0.1"), in("b", "10.0.0.2")},
		},
		"an address is handed on": {
			seen: []holders.Sighting{in("a", "10.0.0.1"), in("b"), in("a", "10.0.0.1"), in("b", "10.0.0.1"), in("a"), in("b", "10.0.0.1")},
		},
		"the first sandbox still has the address after the second got it": {
			seen: []holders.Sighting{in("a", "10.0.0.1"), in("b", "10.0.0.1"), in("a", "10.0.0.1")},
			want: []string{"10.0.0.1 is in a and in b"},
		},
		"both families count": {
			seen: []holders.Sighting{in("a", "10.0.0.1", "fd00::1"), in("b", "10.0.0.2", "fd00::1"), in("a", "10.0.0.1", "fd00::1")},
			want: []string{"fd00::1 is in a and in b"},
		},
		"a lasting duplicate is reported once": {
			seen: []holders.Sighting{in("a", "10.0.0.1"), in("b", "10.0.0.1"), in("a", "10.0.0.1"), in("b", "10.0.0.1"), in("a", "10.0.0.1")},
			want: []string{"10.0.0.1 is in a and in b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, holders.Twice(tc.seen), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Twice (-want +got):\n%s", diff)
			}
		})
	}
}
