package plan

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Route leads to the pods of another node. Without Via it refuses packets to addresses of this node that no pod has: such
// as those of a pod that is being rebuilt, which would else leave by the default gateway.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// sameTarget reports whether one route replaces the other. A route that refuses packets stands behind all others.
func (r Route) sameTarget(o Route) bool { return r.To == o.To && r.Via.IsValid() == o.Via.IsValid() }

// routes lists the routes that the node needs: to each pod CIDR.
func (in OwnNetworkInput) routes(podCIDRs []claim) []Route {
	var routes []Route
	for _, c := range podCIDRs {
		if r, found := in.routeTo(c); found {
			routes = append(routes, r)
		}
	}
	return routes
}

// routeTo returns the route to the addresses of a node, via its internal IP in the same family. Without such an IP there
// is none.
func (in OwnNetworkInput) routeTo(c claim) (Route, bool) {
	if c.node == in.Node {
		return Route{To: c.prefix}, true
	}
	i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == c.node })
	if i < 0 {
		return Route{}, false
	}
	via, found := internalIP(in.Nodes[i], c.prefix.Addr().Is4())
	return Route{To: c.prefix, Via: via}, found
}

// InternalIPs returns the internal IPs of a node.
func InternalIPs(node string, nodes []corev1.Node) (ips []netip.Addr) {
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); n.Name == node && a.Type == corev1.NodeInternalIP && err == nil {
				ips = append(ips, ip)
			}
		}
	}
	return ips
}

func internalIP(n corev1.Node, v4 bool) (netip.Addr, bool) {
	for _, ip := range InternalIPs(n.Name, []corev1.Node{n}) {
		if ip.Is4() == v4 {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// RouteDecision is what to change in the kernel's routing table.
type RouteDecision struct {
	Add     []Route
	Replace []Route // there is a route of ours to the same target
	Remove  []Route
}

// RouteChanges compares the routes that the agent has made with the routes it wants.
// Routes that others made are not in have, and are therefore never removed or replaced.
func RouteChanges(have, want []Route) RouteDecision {
	var d RouteDecision
	for _, r := range want {
		switch {
		case slices.Contains(have, r):
		case slices.ContainsFunc(have, r.sameTarget):
			d.Replace = append(d.Replace, r)
		default:
			d.Add = append(d.Add, r)
		}
	}
	for _, r := range have {
		if !slices.ContainsFunc(want, r.sameTarget) {
			d.Remove = append(d.Remove, r)
		}
	}
	return d
}
