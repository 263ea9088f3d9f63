package cni

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/internal/ipam"
)

// TestRangesAreStoredAsJSON encodes range sets as encoding/json does, since the agent decodes them.
func TestRangesAreStoredAsJSON(t *testing.T) {
	sets, err := ipam.CompleteSets([]ipam.Set{
		{{Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("fd00::1")}, {Subnet: netip.MustParsePrefix("10.2.0.0/24")}},
		{{Subnet: netip.MustParsePrefix("fd00::/64")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range sets {
		want, err := json.Marshal(sets[:n+1])
		if got := ipam.EncodeSets(sets[:n+1]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, and encoding/json: %s, %v", got, want, err)
		}
	}
}
