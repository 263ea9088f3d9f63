package netconf_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/cni/netconf"
)

// TestBelowBridge asks for the gateway and the routes of guests.
func TestBelowBridge(t *testing.T) {
	const flannel = `"type":"bridge","isDefaultGateway":true`
	for name, tc := range map[string]struct{ keys, routes, address, want string }{
		"as flannel has it":       {flannel, `[{"dst":"10.1.0.0/16"}]`, "10.1.9.9/24", "10.1.2.1 10.1.9.0/25>10.1.9.1 10.1.9.128/25>10.1.9.1 0.0.0.0/0>10.1.9.1 10.1.0.0/16>10.1.9.1 true"},
		"a default route of ours": {`"type":"bridge"`, `[{"dst":"0.0.0.0/0"}]`, "10.1.9.9/24", "10.1.2.1 10.1.9.0/25>10.1.9.1 10.1.9.128/25>10.1.9.1 0.0.0.0/0>10.1.9.1 true"},
		"no default route":        {`"type":"bridge"`, `[{"dst":"10.1.0.0/16"},{"dst":"192.0.2.0/24","gw":"10.1.9.7"}]`, "10.1.9.9/24", "10.1.2.1 10.1.9.0/25>10.1.9.1 10.1.9.128/25>10.1.9.1 10.1.0.0/16>10.1.9.1 192.0.2.0/24>10.1.9.7 true"},
		"a small subnet":          {flannel, `[]`, "10.1.9.9/28", "10.1.2.1 10.1.9.0/29>10.1.9.1 10.1.9.8/29>10.1.9.1 0.0.0.0/0>10.1.9.1 true"},
		"below ptp":               {`"type":"ptp"`, `[]`, "10.1.9.9/24", "invalid IP false"},
		"of IPv6":                 {flannel, `[]`, "fd00::9/64", "invalid IP false"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := netconf.Decode([]byte(`{"name":"cbr0",` + tc.keys + `,"ipam":{"ranges":[[{"subnet":"10.1.2.0/24"}]],"routes":` + tc.routes + `}}`)).ParseAdd()
			if err != nil {
				t.Fatal(err)
			}
			gateway, routes, is := c.BelowBridge(netip.MustParsePrefix(tc.address), netip.MustParseAddr("10.1.9.1"))
			got := []string{gateway.String()}
			for _, r := range routes {
				got = append(got, r.Dst.String()+">"+r.GW.String())
			}
			if all := strings.Join(append(got, fmt.Sprint(is)), " "); all != tc.want {
				t.Errorf("got %s, want %s", all, tc.want)
			}
		})
	}
}
