package plan_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

func TestFindFlannel(t *testing.T) {
	const ours, theirs = `"ipam":{"type":"limpet-ipam"}`, `"ipam":{"type":"host-local"}`
	list := func(plugin string) plan.ConfigFile {
		return plan.ConfigFile{Name: "10-flannel.conflist", Data: []byte(`{"name":"cbr0","plugins":[` + plugin + `,{"type":"portmap"}]}`)}
	}
	for name, tc := range map[string]struct {
		files []plan.ConfigFile
		want  string
	}{
		"of its own manifest":     {[]plan.ConfigFile{list(`{"type":"flannel",` + ours + `}`)}, "{cbr0 cni0} true"},
		"another bridge":          {[]plan.ConfigFile{list(`{"type":"flannel",` + ours + `,"delegate":{"bridge":"br1","type":"bridge"}}`)}, "{cbr0 br1} true"},
		"with ipvlan":             {[]plan.ConfigFile{list(`{"type":"flannel",` + ours + `,"delegate":{"type":"ipvlan"}}`)}, "{cbr0 cni0} false"},
		"with host-local":         {[]plan.ConfigFile{list(`{"type":"flannel",` + theirs + `}`)}, "{ } false"},
		"bridge without flannel":  {[]plan.ConfigFile{list(`{"type":"bridge",` + ours + `}`)}, "{cbr0 cni0} false"},
		"behind another network":  {[]plan.ConfigFile{{Name: "05.conf", Data: []byte(`{"type":"calico"}`)}, list(`{"type":"flannel",` + ours + `}`)}, "{ } false"},
		"no network, as at first": {nil, "{ } false"},
	} {
		t.Run(name, func(t *testing.T) {
			c, is := plan.FindFlannel(tc.files)
			if got := fmt.Sprint(c, is); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFlannelSubnets(t *testing.T) {
	for name, tc := range map[string]struct{ env, want string }{
		"as flannel writes it": {"FLANNEL_NETWORK=10.9.0.0/16\nFLANNEL_SUBNET=10.9.3.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n", "10.9.0.0/16 10.9.3.0/24 <nil>"},
		"dual-stack":           {"FLANNEL_NETWORK=10.9.0.0/16\nFLANNEL_IPV6_NETWORK=fd00::/48\n", "network of IPv4 alone"},
		"two networks":         {"FLANNEL_NETWORK=10.9.0.0/16,10.8.0.0/16\n", "FLANNEL_NETWORK: "},
		"a subnet of another":  {"FLANNEL_NETWORK=10.9.0.0/16\nFLANNEL_SUBNET=10.8.3.1/24\n", "is no part of"},
		"an empty file":        {"", "is no part of"},
	} {
		t.Run(name, func(t *testing.T) {
			network, subnet, err := plan.FlannelSubnets([]byte(tc.env))
			if got := fmt.Sprint(network, subnet, err); !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestFollowFlannel asks n3, which has 10.9.3.0/24, for what guests need. Flannel reaches n1 directly and n2 in a tunnel; it
// does not reach n4.
func TestFollowFlannel(t *testing.T) {
	hop := func(to, via string, link int, onlink bool) plan.Route {
		return plan.Route{To: netip.MustParsePrefix(to), Via: netip.MustParseAddr(via), Link: link, Onlink: onlink}
	}
	hops := []plan.Route{hop("10.9.1.0/24", "192.0.2.1", 2, false), hop("10.9.2.0/24", "10.9.2.0", 5, true), hop("10.0.0.0/8", "192.0.2.9", 2, false)}
	one := func(pod, ip, home, at string) []*v1alpha1.BorrowedAddress {
		o := lent(pod, ip, at)
		o.Spec.Network, o.Status.Home = "cbr0", home
		return []*v1alpha1.BorrowedAddress{o}
	}
	other := one("a", "10.9.1.7", "n1", "n2")
	other[0].Spec.Network = plan.NetworkName
	for name, tc := range map[string]struct {
		loans      []*v1alpha1.BorrowedAddress
		held, lent string // a held one is that of a guest
		kept       string
		bridge     int
		backend    string
		subnet     string
		want       string
	}{
		"no loan":                            {want: "[] [] []"},
		"in a tunnel":                        {loans: one("a", "10.9.1.7", "n1", "n2"), want: "[{10.9.1.7/32 10.9.2.0 5 true}] [] []"},
		"directly":                           {loans: one("a", "10.9.2.7", "n2", "n1"), want: "[{10.9.2.7/32 192.0.2.1 2 false}] [] []"},
		"to a node that flannel knows not":   {loans: one("a", "10.9.1.7", "n1", "n4"), want: "[] [] []"},
		"to a node that is gone":             {loans: one("a", "10.9.1.7", "n1", "n9"), want: "[] [] []"},
		"of a home that is gone":             {loans: one("a", "10.9.9.7", "n9", "n2"), want: "[{10.9.9.7/32 10.9.2.0 5 true}] [] []"},
		"of this node":                       {loans: one("a", "10.9.3.7", "n3", "n2"), lent: "10.9.3.7", want: "[{10.9.3.7/32 10.9.2.0 5 true}] [] [10.9.3.7]"},
		"of this node, which has not lent":   {loans: one("a", "10.9.3.7", "n3", "n2"), want: "[] [] []"},
		"a guest":                            {loans: one("a", "10.9.1.7", "n1", "n3"), held: "10.9.1.7", bridge: 7, want: "[{10.9.1.7/32 invalid IP 7 false}] [10.9.1.7] [10.9.1.1]"},
		"of an earlier subnet":               {kept: "10.9.1.7", bridge: 7, want: "[] [] []"},
		"a guest before the bridge":          {loans: one("a", "10.9.1.7", "n1", "n3"), held: "10.9.1.7", want: "[] [10.9.1.7] [10.9.1.1]"},
		"a guest, and a loan to another":     {loans: one("a", "10.9.1.7", "n1", "n2"), held: "10.9.1.7", bridge: 7, want: "[{10.9.1.7/32 invalid IP 7 false}] [10.9.1.7] [10.9.1.1]"},
		"an address outside of the network":  {loans: one("a", "192.168.1.7", "n9", "n2"), want: "[] [] []"},
		"of another network":                 {loans: other, want: "[] [] []"},
		"with a backend that knows no guest": {backend: "wireguard", want: "addresses do not follow"},
		"with a subnet that is no pod CIDR":  {subnet: "10.9.4.0/24", want: "addresses do not follow"},
	} {
		t.Run(name, func(t *testing.T) {
			in := plan.OwnNetworkInput{Node: "n3", Network: "cbr0", Loans: tc.loans, PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}
			in.Held, in.Guests, in.Lent = addresses(strings.Fields(tc.held+tc.kept)...), addresses(strings.Fields(tc.held)...), addresses(strings.Fields(tc.lent)...)
			for i := range 4 {
				n := withIPs(fmt.Sprintf("n%d", i+1), fmt.Sprintf("10.9.%d.0/24", i+1), fmt.Sprintf("192.0.2.%d", i+1))
				n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, fmt.Sprintf("fd00:9:%d::/64", i+1)) // of which flannel makes no use
				n.Annotations = loan.FlannelAnnotations(cmp.Or(tc.backend, "vxlan"))
				in.Nodes = append(in.Nodes, n)
			}
			d, err := plan.FollowFlannel(in, netip.MustParsePrefix(cmp.Or(tc.subnet, "10.9.3.0/24")), hops, tc.bridge)
			got := fmt.Sprint(d.Routes, d.Guests, d.Proxies)
			if err != nil {
				got = err.Error()
			}
			if got != tc.want && (err == nil || !strings.Contains(got, tc.want)) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if err == nil && (!slices.Equal(d.Owns, []netip.Prefix{netip.MustParsePrefix("10.9.3.0/24")}) || d.Conflist != nil) {
				t.Errorf("owns %v, writes %s", d.Owns, d.Conflist)
			}
		})
	}
	if _, err := plan.FollowFlannel(plan.OwnNetworkInput{Node: "n3", Nodes: []corev1.Node{}}, netip.Prefix{}, nil, 0); err == nil {
		t.Error("a node without a Node has routes")
	}
}
