package plan_test

import (
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/ipam"
)

// TestPoolStatusShowsWhatTheCRDAllows shows a network with very many ranges, which the API server would refuse.
func TestPoolStatusShowsWhatTheCRDAllows(t *testing.T) {
	one := ipam.Range{Start: netip.MustParseAddr("10.0.0.1"), End: netip.MustParseAddr("10.0.0.9")}
	var long ipam.Set
	for range 60 {
		long = append(long, one)
	}
	sets := []ipam.Set{long}
	for range 20 {
		sets = append(sets, ipam.Set{one})
	}
	s := plan.PoolStatus("n1", plan.Network{Name: "net", Sets: sets}, 0)
	if len(s.Ranges) != 16 || s.Ranges[0] != one.String() || s.Total != 9 {
		t.Errorf("%d range sets, the first %q, %d pods; want 16, %s and 9", len(s.Ranges), s.Ranges[0], s.Total, one)
	}
}

// The ranges of a pool are addresses that pods can get: the page of kubectl limpet ui draws them.
func TestPoolStatusShowsNoGateway(t *testing.T) {
	at := netip.MustParseAddr
	for gateway, want := range map[string]string{
		"10.0.0.1": "10.0.0.2-10.0.0.9", "10.0.0.9": "10.0.0.1-10.0.0.8", "10.0.0.4": "10.0.0.1-10.0.0.3,10.0.0.5-10.0.0.9", "10.0.0.254": "10.0.0.1-10.0.0.9", "": "10.0.0.1-10.0.0.9",
	} {
		r := ipam.Range{Start: at("10.0.0.1"), End: at("10.0.0.9")}
		if gateway != "" {
			r.Gateway = at(gateway)
		}
		if s := plan.PoolStatus("n1", plan.Network{Sets: []ipam.Set{{r}}}, 0); len(s.Ranges) != 1 || s.Ranges[0] != want {
			t.Errorf("gateway %s: %q, want %s", gateway, s.Ranges, want)
		}
	}
}
