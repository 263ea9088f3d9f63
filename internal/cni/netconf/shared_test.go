package netconf_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/cni/netconf"
)

// TestSharedNetwork reads on which interface the other nodes are, and what a guest gets there.
func TestSharedNetwork(t *testing.T) {
	const part, other, six = `{"subnet":"10.9.0.0/16","rangeStart":"10.9.1.0","rangeEnd":"10.9.1.255","gateway":"10.9.0.1"}`,
		`{"subnet":"10.8.0.0/16"}`, `{"subnet":"fd00:9::/64","rangeStart":"fd00:9::1:0","rangeEnd":"fd00:9::1:ffff"}`
	const more = `{"subnet":"10.9.0.0/16","rangeStart":"10.9.7.0","rangeEnd":"10.9.7.9"}`
	for name, tc := range map[string]struct{ keys, ranges, address, want string }{
		"bridge":                  {`"type":"bridge","bridge":"br1"`, "[" + part + "]", "10.9.2.7", "br1 10.9.2.7/16 10.9.0.1 <nil>"},
		"the bridge by default":   {`"type":"bridge","isDefaultGateway":true`, "[" + part + "]", "10.9.2.7", "cni0 10.9.2.7/16 10.9.0.1 <nil>"},
		"macvlan":                 {`"type":"macvlan","master":"eth1"`, "[" + part + "]", "10.9.2.7", "eth1 10.9.2.7/16 10.9.0.1 <nil>"},
		"two families":            {`"type":"macvlan","master":"eth1"`, "[" + part + "],[" + six + "]", "fd00:9::2:7", "eth1 fd00:9::2:7/64 fd00:9::1 <nil>"},
		"two parts of one subnet": {`"type":"bridge"`, "[" + part + "," + more + "]", "10.9.7.8", "cni0 10.9.7.8/16 10.9.0.1 <nil>"},
		"the gateway":             {`"type":"bridge"`, "[" + part + "]", "10.9.0.1", "10.9.0.1 is the gateway of this node"},
		"of a foreign subnet":     {`"type":"bridge"`, "[" + part + "]", "10.8.0.7", "not in 10.9.0.0/16"},
		"two subnets":             {`"type":"bridge"`, "[" + part + "," + other + "]", "", "10.9.0.0/16 and 10.8.0.0/16 are two subnets"},
		"two sets of one family":  {`"type":"bridge"`, "[" + part + "],[" + other + "]", "", "are two subnets"},
		"bridge with vlan":        {`"type":"bridge","vlan":7`, "[" + part + "]", "", "must be bridge without vlan"},
		"macvlan without master":  {`"type":"macvlan"`, "[" + part + "]", "", "macvlan with master"},
		"ptp":                     {`"type":"ptp"`, "[" + part + "]", "", "must be bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := netconf.Decode([]byte(`{"cniVersion":"1.0.0","name":"lan",` + tc.keys + `,"ipam":{"sharedNetwork":true,"ranges":[` + tc.ranges + `]}}`)).ParseAdd()
			got := fmt.Sprint(err)
			if err == nil {
				addr := netip.MustParseAddr(tc.address)
				subnet, gateway, err := c.SubnetOf(0, addr)
				got = fmt.Sprint(c.Segment, " ", subnet, " ", gateway, " ", err)
				if _, _, is := c.BelowBridge(subnet, gateway); is {
					t.Error("a guest gets routes of its own")
				}
			}
			if !strings.Contains(got, tc.want) || err != nil && !errors.Is(err, netconf.ErrConfig) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
