package ipam_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/internal/ipam"
)

// every is a view in which every address is free.
type every struct{}

func (every) FirstFree(from, _ netip.Addr) (netip.Addr, bool, error) { return from, true, nil }

// TestViewSkipsTakenAddresses asks for the first free address of 10.0.0.1 to 10.0.0.3.
func TestViewSkipsTakenAddresses(t *testing.T) {
	unreadable := errors.New("unreadable")
	for name, tc := range map[string]struct {
		taken []string
		fails bool
		want  string
	}{
		"none taken":       {want: "10.0.0.1"},
		"the first taken":  {taken: []string{"10.0.0.1"}, want: "10.0.0.2"},
		"all but the last": {taken: []string{"10.0.0.1", "10.0.0.2"}, want: "10.0.0.3"},
		"all taken":        {taken: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		"cannot be read":   {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			without := ipam.Without(every{}, func(a netip.Addr) (bool, error) {
				for _, taken := range tc.taken {
					if a.String() == taken {
						return true, nil
					}
				}
				if tc.fails {
					return false, unreadable
				}
				return false, nil
			})
			got, found, err := without.FirstFree(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.3"))
			if found != (tc.want != "") || found && got.String() != tc.want || tc.fails != errors.Is(err, unreadable) {
				t.Errorf("got %v, %t, %v; want %q", got, found, err, tc.want)
			}
		})
	}
}
