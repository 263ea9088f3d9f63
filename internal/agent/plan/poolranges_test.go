package plan_test

import (
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/ipam"
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
