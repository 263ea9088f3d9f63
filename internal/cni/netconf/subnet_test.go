package netconf_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/ipam"
)

// TestSubnetOf asks for the mask and the gateway of addresses of this node and of another one.
func TestSubnetOf(t *testing.T) {
	sets, err := ipam.CompleteSets([]ipam.Set{{{Subnet: netip.MustParsePrefix("10.1.0.0/26"), Gateway: netip.MustParseAddr("10.1.0.9")}}, {{Subnet: netip.MustParsePrefix("10.2.0.0/24")}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &netconf.Config{Sets: sets}
	for name, tc := range map[string]struct {
		set  int
		addr string
		want string
	}{
		"of the first set":                      {0, "10.1.0.2", "10.1.0.2/26 10.1.0.9 <nil>"},
		"of the second set":                     {1, "10.2.0.2", "10.2.0.2/24 10.2.0.1 <nil>"},
		"of another node":                       {0, "10.9.0.77", "10.9.0.77/26 10.9.0.65 <nil>"},
		"of another node, and mostly a gateway": {0, "10.9.0.65", "10.9.0.65/26 10.9.0.66 <nil>"},
		"of another node with more sets":        {7, "10.9.0.2", "10.9.0.2/26 10.9.0.1 <nil>"},
		"of another family":                     {0, "fd00::2", "invalid Prefix invalid IP fd00::2 is of another node, and no range of this network has its family"},
	} {
		t.Run(name, func(t *testing.T) {
			subnet, gateway, err := c.SubnetOf(tc.set, netip.MustParseAddr(tc.addr))
			if got := fmt.Sprint(subnet, gateway, err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
