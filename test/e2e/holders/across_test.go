package holders_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/holders"
)

// TestAcross looks at two nodes in turn, a second each.
func TestAcross(t *testing.T) {
	in := func(ns, addr string) []holders.Sighting {
		return []holders.Sighting{{NetNS: ns, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}}
	}
	type step struct {
		node string
		seen []holders.Sighting
	}
	for name, tc := range map[string]struct {
		looks []step
		want  []string
	}{
		"an address goes to another node": {looks: []step{
			{"n1", in("a", "10.0.0.1")}, {"n2", nil}, {"n1", nil}, {"n2", in("b", "10.0.0.1")}, {"n1", nil},
		}},
		"an address goes between two looks, and comes back": {looks: []step{
			{"n1", in("a", "10.0.0.1")}, {"n2", in("b", "10.0.0.1")}, {"n1", in("c", "10.0.0.1")},
		}},
		"two nodes have other addresses": {looks: []step{
			{"n1", in("a", "10.0.0.1")}, {"n2", in("b", "10.0.0.2")}, {"n1", in("a", "10.0.0.1")},
		}},
		"two nodes have an address": {looks: []step{
			{"n1", in("a", "10.0.0.1")}, {"n2", in("b", "10.0.0.1")}, {"n1", in("a", "10.0.0.1")},
		}, want: []string{"10.0.0.1 is in a, and on n2 in b"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, at := holders.NewAcross(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			var got []string
			for _, l := range tc.looks {
				end := at.Add(time.Second)
				got = append(got, a.Look(l.node, l.seen, at, end)...)
				at = end
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}
