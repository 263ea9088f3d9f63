package plan_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
)

// nodeWith returns a Node with pod CIDRs and internal IPs, and with addresses of other types.
func nodeWith(name string, cidrs []string, internalIPs ...string) corev1.Node {
	n := testenv.ANode(name)
	n.Spec.PodCIDRs = cidrs
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "198.51.100.9"}, {Type: corev1.NodeHostName, Address: name}}
	for _, a := range internalIPs {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return *n.Node
}

func TestRoutes(t *testing.T) {
	self := nodeWith("n1", []string{"10.1.1.0/24"}, "192.0.2.1")
	for name, tc := range map[string]struct {
		nodes []corev1.Node
		want  []string
	}{
		"packets to addresses that no pod has are refused": {nodes: []corev1.Node{self}, want: []string{"unreachable 10.1.1.0/24"}},
		"each family is routed via an address of the family": {
			nodes: []corev1.Node{self, nodeWith("n2", []string{"10.1.2.0/24", "fd00:2::/64"}, "192.0.2.2", "2001:db8::2")},
			want:  []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "fd00:2::/64 via 2001:db8::2"},
		},
		"a family without an internal IP gets no route": {
			nodes: []corev1.Node{self, nodeWith("n2", []string{"10.1.2.0/24", "fd00:2::/64"}, "192.0.2.2")},
			want:  []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2"},
		},
		"a node without pod CIDRs gets no route": {nodes: []corev1.Node{self, nodeWith("n2", nil, "192.0.2.2")}, want: []string{"unreachable 10.1.1.0/24"}},
		"routes are sorted by their target": {
			nodes: []corev1.Node{nodeWith("n3", []string{"10.1.3.0/24"}, "192.0.2.3"), self, nodeWith("n2", []string{"10.1.2.0/24"}, "192.0.2.2")},
			want:  []string{"unreachable 10.1.1.0/24", "10.1.2.0/24 via 192.0.2.2", "10.1.3.0/24 via 192.0.2.3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range plan.OwnNetwork(plan.OwnNetworkInput{Node: "n1", Nodes: tc.nodes}).Routes {
				got = append(got, routeText(r))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func routeText(r plan.Route) string {
	if !r.Via.IsValid() {
		return "unreachable " + r.To.String()
	}
	return r.To.String() + " via " + r.Via.String()
}

func TestRouteChanges(t *testing.T) {
	route := func(to, via string) plan.Route {
		return plan.Route{To: netip.MustParsePrefix(to), Via: netip.MustParseAddr(via)}
	}
	own := plan.Route{To: netip.MustParsePrefix("10.1.2.0/24")} // the node got the pod CIDR of another one
	second, moved, third := route("10.1.2.0/24", "192.0.2.2"), route("10.1.2.0/24", "192.0.2.22"), route("10.1.3.0/24", "192.0.2.3")
	for name, tc := range map[string]struct {
		have, want []plan.Route
		changes    plan.RouteDecision
	}{
		"a missing route is added":                    {have: []plan.Route{second}, want: []plan.Route{second, third}, changes: plan.RouteDecision{Add: []plan.Route{third}}},
		"a route with another gateway is replaced":    {have: []plan.Route{second}, want: []plan.Route{moved}, changes: plan.RouteDecision{Replace: []plan.Route{moved}}},
		"a route that is not wanted any more goes":    {have: []plan.Route{second, third}, want: []plan.Route{third}, changes: plan.RouteDecision{Remove: []plan.Route{second}}},
		"without wanted routes all are removed":       {have: []plan.Route{second, third}, changes: plan.RouteDecision{Remove: []plan.Route{second, third}}},
		"a refusal stands behind a route":             {have: []plan.Route{second}, want: []plan.Route{own}, changes: plan.RouteDecision{Add: []plan.Route{own}, Remove: []plan.Route{second}}},
		"wanted routes that are there stay as is":     {have: []plan.Route{second, third}, want: []plan.Route{third, second}},
		"prefixes of other lengths are other targets": {have: []plan.Route{second}, want: []plan.Route{route("10.1.2.0/25", "192.0.2.2")}, changes: plan.RouteDecision{Add: []plan.Route{route("10.1.2.0/25", "192.0.2.2")}, Remove: []plan.Route{second}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.RouteChanges(tc.have, tc.want)
			if diff := cmp.Diff(tc.changes, got, cmp.Comparer(func(a, b plan.Route) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
