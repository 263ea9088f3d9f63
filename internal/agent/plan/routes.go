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

// Routes lists the routes that the node called self needs: to each pod CIDR of every other
// node, via the internal IP of the other node in the same family. Pod CIDRs of a family in
// which the other node has no internal IP get no route.
func Routes(self string, nodes []corev1.Node) []Route {
	var routes []Route
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			to, err := netip.ParsePrefix(text)
			if err != nil {
				continue // the API server validates pod CIDRs
			}
			if via, found := internalIP(n, to.Addr().Is4()); n.Name == self {
				routes = append(routes, Route{To: to.Masked()})
			} else if found {
				routes = append(routes, Route{To: to.Masked(), Via: via})
			}
		}
	}
	slices.SortFunc(routes, func(a, b Route) int { return a.To.Addr().Compare(b.To.Addr()) })
	return routes
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
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if a.Type == corev1.NodeInternalIP && err == nil && ip.Is4() == v4 {
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

// allIPv4 and allIPv6 are all addresses of a family.
var allIPv4, allIPv6 = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)

func allOf(family netip.Addr) netip.Prefix {
	if family.Is4() {
		return allIPv4
	}
	return allIPv6
}

// RouteChanges compares the routes that the agent has made with the routes it wants.
// Routes that others made are not in have, and are therefore never removed or replaced. Routes to the targets in stay are
// left as they are; all are if stay has allIPv4 and allIPv6.
func RouteChanges(have, want []Route, stay ...netip.Prefix) RouteDecision {
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
		stays := slices.Contains(stay, r.To) || slices.Contains(stay, allOf(r.To.Addr()))
		if !slices.ContainsFunc(want, r.sameTarget) && !stays {
			d.Remove = append(d.Remove, r)
		}
	}
	return d
}
