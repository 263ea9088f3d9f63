package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/limpet-io/limpet/internal/ipam"
)

func TestPrefixesOfARange(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"one address":       {"10.1.0.7", "10.1.0.7", "[10.1.0.7/32]"},
		"a whole network":   {"10.1.0.0", "10.1.0.255", "[10.1.0.0/24]"},
		"uneven ends":       {"10.1.0.10", "10.1.0.17", "[10.1.0.10/31 10.1.0.12/30 10.1.0.16/31]"},
		"to the very last":  {"255.255.255.254", "255.255.255.255", "[255.255.255.254/31]"},
		"all of IPv6":       {"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "[::/0]"},
		"the end of a half": {"fd00::1", "fd00::3", "[fd00::1/128 fd00::2/127]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(ipam.Range{Start: addr(tc.from), End: addr(tc.to)}.Prefixes()); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestPrefixesHaveEachAddressOnce counts the addresses of ranges with any ends.
func TestPrefixesHaveEachAddressOnce(t *testing.T) {
	for range 200 {
		from := addr(fmt.Sprintf("10.1.%d.%d", rand.IntN(4), rand.IntN(256)))
		to := from
		for range rand.IntN(700) {
			to = to.Next()
		}
		r, next := ipam.Range{Start: from, End: to}, from
		for _, p := range r.Prefixes() {
			for ; p.Contains(next) && next.Compare(to) <= 0; next = next.Next() {
			}
		}
		if next != to.Next() {
			t.Fatalf("%s: %v end before %s", r, r.Prefixes(), next)
		}
	}
}
