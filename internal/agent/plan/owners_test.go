package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// aged returns a Node that was created some hours after the first one.
func aged(hours int, name, cidrs string, internalIPs ...string) corev1.Node {
	n := nodeWith(name, strings.Fields(cidrs), internalIPs...)
	n.CreationTimestamp = metav1.NewTime(now.Wall.Add(time.Duration(hours) * time.Hour))
	return n
}

func via(to, ip string) plan.Route {
	return plan.Route{To: netip.MustParsePrefix(to), Via: netip.MustParseAddr(ip)}
}

// TestTheFirstOwnerStays has Nodes that lie about their pod CIDR or their address beside n1, which decides, and n2.
func TestTheFirstOwnerStays(t *testing.T) {
	n1, n2 := aged(2, "n1", "10.1.1.0/24 fd01:1::/64", "192.0.2.1"), aged(3, "n2", "10.1.2.0/24", "192.0.2.2")
	own := []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "unreachable fd01:1::/64"}
	for name, tc := range map[string]struct {
		liar    corev1.Node
		change  func(*plan.OwnNetworkInput)
		routes  []string // nil for own
		refused string   // a word of the error
		words   string   // of the error about the network configuration
	}{
		"half of the Internet":             {liar: aged(9, "n9", "0.0.0.0/1", "192.0.2.9"), refused: "0.0.0.0/1 of node n9 is no network for the pods of a node"},
		"the default route of IPv6":        {liar: aged(9, "n9", "::/0", "2001:db8::9"), refused: "::/0 of node n9"},
		"a private network that is wide":   {liar: aged(9, "n9", "10.0.0.0/15", "192.0.2.9"), refused: "10.0.0.0/15"},
		"one address":                      {liar: aged(9, "n9", "10.1.9.9/32", "192.0.2.9"), refused: ""},
		"two addresses":                    {liar: aged(9, "n9", "10.1.9.8/31", "192.0.2.9"), refused: "10.1.9.8/31"},
		"a server on the Internet":         {liar: aged(9, "n9", "198.51.100.0/24", "192.0.2.9"), refused: "198.51.100.0/24"},
		"the multicast addresses":          {liar: aged(9, "n9", "224.0.0.0/24", "192.0.2.9"), refused: "224.0.0.0/24"},
		"the loopback addresses":           {liar: aged(9, "n9", "127.0.0.0/16", "192.0.2.9"), refused: "127.0.0.0/16"},
		"the pod CIDR of another, later":   {liar: aged(9, "n9", "10.1.2.0/24", "192.0.2.9"), refused: "10.1.2.0/24 of node n9 shares addresses with 10.1.2.0/24 of node n2"},
		"a part of it":                     {liar: aged(9, "n9", "10.1.2.128/25", "192.0.2.9"), refused: "10.1.2.128/25 of node n9"},
		"more than it":                     {liar: aged(9, "n9", "10.1.2.0/23", "192.0.2.9"), refused: "10.1.2.0/23 of node n9"},
		"an older Node without a pod CIDR": {liar: aged(0, "n0", "10.1.2.0/24", "192.0.2.9"), change: has(via("10.1.2.0/24", "192.0.2.2")), refused: "10.1.2.0/24 of node n0"},
		"the pod CIDR of this node":        {liar: aged(9, "n9", "10.1.1.0/24", "192.0.2.9"), refused: "10.1.1.0/24 of node n9"},
		"… by an older Node":               {liar: aged(0, "n0", "10.1.1.0/25", "192.0.2.9"), change: applied("10.1.1.0/24"), refused: "10.1.1.0/25 of node n0"},
		"the network of a node":            {liar: aged(9, "n9", "10.9.0.0/16", "192.0.2.9"), change: internal("n2", "10.9.0.2"), routes: []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 10.9.0.2", "unreachable fd01:1::/64"}, refused: "shares addresses with 10.9.0.2/32 of node n2"},
		"… with the address of the victim": {liar: aged(0, "n0", "10.9.0.0/16", "10.9.0.2"), change: internal("n1", "10.9.0.2"), refused: "10.9.0.0/16 of node n0"},
		"services":                         {liar: aged(0, "n0", "10.96.0.0/16", "192.0.2.9"), change: services("10.96.0.1/32"), refused: "(the API server)"},
		"… of IPv6":                        {liar: aged(0, "n0", "fd96::/112", "2001:db8::9"), change: services("fd96::1/128"), refused: "(the API server)"},
		"services beside the API server":   {liar: aged(0, "n0", "10.96.4.0/24", "192.0.2.9"), change: services("10.96.0.1/32", "10.96.0.0/12"), refused: "10.96.4.0/24 of node n0 shares addresses with range 10.96.0.0/12 of node (the API server)"},
		"… of IPv6, with others":           {liar: aged(0, "n0", "fd96::/64", "2001:db8::9"), change: services("fd96::/108"), refused: "fd96::/64 of node n0"},
		"… with a route that it has":       {liar: aged(0, "n0", "10.96.4.0/24", "192.0.2.9"), change: both(services("10.96.0.0/12"), has(via("10.96.4.0/24", "192.0.2.9"))), refused: "10.96.4.0/24 of node n0"},
		"services in the pod CIDR of a node that runs": {
			liar: aged(9, "n9", "10.1.9.0/24", "192.0.2.9"), change: both(services("10.1.0.0/16"), applied("10.1.1.0/24")),
			routes: []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "10.1.9.0/24 via 192.0.2.9", "unreachable fd01:1::/64"},
		},
		"the pod CIDR of IPv6 of another":   {liar: aged(9, "n9", "fd01:1::/64", "2001:db8::9"), refused: "fd01:1::/64 of node n9 shares addresses with fd01:1::/64 of node n1"},
		"a part of it in IPv6":              {liar: aged(9, "n9", "fd01:1::/96", "2001:db8::9"), refused: "fd01:1::/96 of node n9"},
		"more than it in IPv6":              {liar: aged(9, "n9", "fd01::/48", "2001:db8::9"), change: func(in *plan.OwnNetworkInput) { in.Nodes[2].Spec.PodCIDRs = []string{"10.1.1.0/24", "fd01:0:0:1::/64"} }, routes: []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "unreachable fd01:0:0:1::/64"}, refused: "fd01::/48 of node n9"},
		"a server on the Internet of IPv6":  {liar: aged(9, "n9", "2001:db8:7::/64", "2001:db8::9"), refused: "2001:db8:7::/64"},
		"IPv4 in IPv6":                      {liar: aged(9, "n9", "::ffff:10.1.2.0/120", "2001:db8::9"), refused: "of node n9"},
		"link-local addresses":              {liar: aged(9, "n9", "fe80::/64", "2001:db8::9"), refused: "fe80::/64"},
		"outside of the networks of pods":   {liar: aged(9, "n9", "10.2.0.0/24", "192.0.2.9"), change: networks("10.1.0.0/16"), refused: "10.2.0.0/24"},
		"a range that a route leads to":     {liar: aged(0, "n0", "10.200.2.0/25", "192.0.2.9"), change: both(ranged("n2 Further 10.200.2.0/24"), has(via("10.200.2.0/24", "192.0.2.2"))), routes: append(slices.Clone(own), "10.200.2.0/24 via 192.0.2.2"), refused: "10.200.2.0/25"},
		"an invented address in a pod CIDR": {liar: aged(0, "n0", "10.1.9.0/24", "10.1.2.7"), change: has(via("10.1.2.0/24", "192.0.2.2")), routes: []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "10.1.9.0/24 via 10.1.2.7", "unreachable fd01:1::/64"}},
		"an honest Node":                    {liar: aged(9, "n9", "10.1.9.0/24", "192.0.2.9"), routes: []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "10.1.9.0/24 via 192.0.2.9", "unreachable fd01:1::/64"}},
		"… in another private network":      {liar: aged(9, "n9", "172.20.9.0/24", "192.0.2.9"), routes: append(slices.Clone(own[:2]), "172.20.9.0/24 via 192.0.2.9", own[2])},
		"a new node whose pod CIDR another has": {
			liar: aged(0, "n0", "10.1.1.0/24", "192.0.2.9"), routes: []string{"10.1.1.0/24 via 192.0.2.9", "10.1.2.0/24 via 192.0.2.2", "unreachable fd01:1::/64"},
			refused: "10.1.1.0/24 of node n1 shares addresses with 10.1.1.0/24 of node n0", words: "10.1.1.0/24 of node n1 counts for nothing. Remedy",
		},
		"… and has a range instead": {
			liar: aged(0, "n0", "10.1.1.0/24", "192.0.2.9"), change: ranged("n1 Instead 10.200.1.0/24"), refused: "10.1.1.0/24 of node n1",
			routes: []string{"10.1.1.0/24 via 192.0.2.9", "10.1.2.0/24 via 192.0.2.2", "unreachable fd01:1::/64", "unreachable 10.200.1.0/24"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := plan.OwnNetworkInput{Node: "n1", Nodes: []corev1.Node{tc.liar, n2, n1}}
			if tc.change != nil {
				tc.change(&in)
			}
			d := plan.OwnNetwork(in)
			if tc.routes == nil {
				tc.routes = own
			}
			if diff := cmp.Diff(tc.routes, routeTexts(d.Routes)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if said := fmt.Sprint(d.Refused); !strings.Contains(said, tc.refused) || tc.refused == "" && d.Refused != nil {
				t.Errorf("refused %v, want %q", d.Refused, tc.refused)
			}
			if said := fmt.Sprint(d.Err); !strings.Contains(said, tc.words) || (d.Conflist == nil) != (tc.words != "") {
				t.Errorf("network configuration %s, %v; want %q", d.Conflist, d.Err, tc.words)
			}
		})
	}
}

func routeTexts(routes []plan.Route) (texts []string) {
	for _, r := range routes {
		texts = append(texts, routeText(r))
	}
	return texts
}

func has(routes ...plan.Route) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) { in.Have = routes }
}

func applied(cidr string) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) { in.Current = conflistOf(cidr) }
}

// conflistOf returns the network configuration of a node with ranges.
func conflistOf(cidrs ...string) []byte {
	var sets []string
	for _, c := range cidrs {
		sets = append(sets, fmt.Sprintf(`[{"subnet": %q}]`, c))
	}
	return fmt.Appendf(nil, `{"name": "limpet", "plugins": [{"type": "ptp", "ipam": {"ranges": [%s]}}]}`, strings.Join(sets, ","))
}

func services(cidrs ...string) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) {
		for _, c := range cidrs {
			in.Services = append(in.Services, netip.MustParsePrefix(c))
		}
	}
}

func networks(cidrs ...string) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) {
		for _, c := range cidrs {
			in.PodNetworks = append(in.PodNetworks, netip.MustParsePrefix(c))
		}
	}
}

func ranged(texts ...string) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) {
		in.Settings = &plan.NodeNetwork{Spec: v1alpha1.NodeNetworkSpec{Ranges: ranges(texts...)}}
	}
}

func internal(node, ip string) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) {
		i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == node })
		in.Nodes[i].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	}
}

func both(a, b func(*plan.OwnNetworkInput)) func(*plan.OwnNetworkInput) {
	return func(in *plan.OwnNetworkInput) { a(in); b(in) }
}

// TestNodesThatLie gives random clusters random Nodes. Whatever these say, a route leads to addresses of one node only, to
// no address of an honest node, into the networks of pods; routes that were there stay, and the next round changes nothing.
func TestNodesThatLie(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 22))
		honest := cluster(r)
		in := plan.OwnNetworkInput{Node: "h0", Nodes: honest}
		services("10.96.0.1/32", "10.96.0.0/16", "fd00:96::/108")(&in)
		before := plan.OwnNetwork(in)
		if len(before.Routes) != 2*len(honest) || before.Refused != nil {
			t.Fatalf("seed %d: honest nodes have the routes %v, %v", seed, routeTexts(before.Routes), before.Refused)
		}
		in.Nodes = append(slices.Clone(honest), liars(r)...)
		r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		in.Have, in.Current = before.Routes, before.Conflist
		after := plan.OwnNetwork(in)
		if c := plan.RouteChanges(in.Have, after.Routes); len(c.Replace)+len(c.Remove) > 0 {
			t.Fatalf("seed %d: replaces %v, removes %v", seed, routeTexts(c.Replace), routeTexts(c.Remove))
		}
		sound(t, seed, after.Routes, honest)
		in.Have = after.Routes
		r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		if c := plan.RouteChanges(in.Have, plan.OwnNetwork(in).Routes); len(c.Add)+len(c.Replace)+len(c.Remove) > 0 {
			t.Fatalf("seed %d: the next round changes %+v", seed, c)
		}
		in.Have = nil // the machine starts again
		sound(t, seed, plan.OwnNetwork(in).Routes, honest)
	}
}

// sound fails where two routes share addresses, or one leads to what is no pod.
func sound(t *testing.T, seed uint64, routes []plan.Route, honest []corev1.Node) {
	t.Helper()
	for i, a := range routes {
		for _, b := range routes[:i] {
			if a.To.Overlaps(b.To) {
				t.Fatalf("seed %d: routes %s and %s", seed, routeText(a), routeText(b))
			}
		}
		if !a.To.Addr().IsPrivate() || a.To.Bits() < 16 || a.Via.IsValid() && a.Via.Is4() != a.To.Addr().Is4() {
			t.Fatalf("seed %d: route %s", seed, routeText(a))
		}
		for _, services := range []string{"10.96.0.0/16", "fd00:96::/108"} {
			if a.To.Overlaps(netip.MustParsePrefix(services)) {
				t.Fatalf("seed %d: route %s to services", seed, routeText(a))
			}
		}
		for _, own := range honest[0].Spec.PodCIDRs {
			if a.To.Overlaps(netip.MustParsePrefix(own)) && a.Via.IsValid() {
				t.Fatalf("seed %d: route %s takes packets of this node", seed, routeText(a))
			}
		}
		for _, own := range honest[0].Status.Addresses[2:] {
			if a.To.Contains(netip.MustParseAddr(own.Address)) {
				t.Fatalf("seed %d: route %s to this node itself", seed, routeText(a))
			}
		}
	}
}

// cluster returns up to eight honest nodes, created in any order.
func cluster(r *rand.Rand) (nodes []corev1.Node) {
	for i := range 2 + r.IntN(7) {
		nodes = append(nodes, aged(r.IntN(20), fmt.Sprintf("h%d", i), fmt.Sprintf("10.244.%d.0/24 fd00:244:0:%x::/64", i, i), fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprintf("fd00::%x", i+1)))
	}
	return nodes
}

// liars returns up to four Nodes whose pod CIDRs and addresses are invented, near those of others.
func liars(r *rand.Rand) (nodes []corev1.Node) {
	near := []string{"10.244.0.0", "10.244.1.0", "10.244.2.128", "10.0.0.0", "10.96.0.0", "10.0.0.2", "8.8.8.8", "192.168.1.1", "0.0.0.0", "10.244.3.4", "fd00::", "fd00::2", "fd00:244::", "fd00:244:0:1::", "fd00:96::1", "2001:db8::", "::"}
	for i := range 1 + r.IntN(4) {
		var cidrs []string
		for range 1 + r.IntN(2) { // the API server takes one of each family
			ip := netip.MustParseAddr(near[r.IntN(len(near))])
			if len(cidrs) == 0 || ip.Is4() != netip.MustParsePrefix(cidrs[0]).Addr().Is4() {
				cidrs = append(cidrs, netip.PrefixFrom(ip, r.IntN(ip.BitLen()+1)).Masked().String())
			}
		}
		nodes = append(nodes, aged(r.IntN(20), fmt.Sprintf("liar%d", i), strings.Join(cidrs, " "), near[r.IntN(len(near))], near[r.IntN(len(near))], "192.0.2.9", "2001:db8::9"))
	}
	return nodes
}

// BenchmarkOwnNetwork decides on a node of a cluster with 2000 nodes of two families, as each agent does every 5 seconds.
func BenchmarkOwnNetwork(b *testing.B) {
	in := plan.OwnNetworkInput{Node: "node-0.example.com"}
	for i := range 2000 {
		cidrs := []string{fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), fmt.Sprintf("fd00:0:0:%x::/64", i)}
		in.Nodes = append(in.Nodes, nodeWith(fmt.Sprintf("node-%d.example.com", i), cidrs, fmt.Sprintf("172.16.%d.%d", i/250, i%250+1), fmt.Sprintf("fd01::%x", i+1)))
	}
	in.Have = plan.OwnNetwork(in).Routes
	for b.Loop() {
		plan.RouteChanges(in.Have, plan.OwnNetwork(in).Routes)
	}
}
