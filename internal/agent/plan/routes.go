package plan

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Route leads to the pods of another node. Without Via it refuses packets to addresses of this node that no pod has: such
// as those of a pod that is being rebuilt, which would else leave by the default gateway.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
	// Link is the number of the interface in a network that is not the agent's: 0 for the kernel's choice. Onlink means that Via
	// is there, whatever routes say. With a Link, a route without Via leads to a pod of this node.
	Link   int
	Onlink bool
}

// target is what a route is for: two routes of one target cannot both be. A route that refuses packets stands behind all
// others.
type target struct {
	to      netip.Prefix
	refuses bool
}

func (r Route) target() target { return target{r.To, r.Refuses()} }

// Refuses reports whether a route refuses packets.
func (r Route) Refuses() bool { return !r.Via.IsValid() && r.Link == 0 }

// router returns a function that finds the route to the addresses of a node, via its internal IP in the same family.
// Without such an IP there is none.
func (in OwnNetworkInput) router() func(claim) (Route, bool) {
	type end struct {
		node string
		v4   bool
	}
	ends := map[end]netip.Addr{}
	for _, a := range in.addresses {
		ends[end{a.node, a.prefix.Addr().Is4()}] = a.prefix.Addr()
	}
	return func(c claim) (Route, bool) {
		if c.node == in.Node {
			return Route{To: c.prefix}, true
		}
		via, found := ends[end{c.node, c.prefix.Addr().Is4()}]
		return Route{To: c.prefix, Via: via}, found
	}
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
	had, wanted := map[target]Route{}, map[target]bool{}
	for _, r := range have {
		had[r.target()] = r
	}
	for _, r := range want {
		wanted[r.target()] = true
		if old, there := had[r.target()]; !there {
			d.Add = append(d.Add, r)
		} else if old != r {
			d.Replace = append(d.Replace, r)
		}
	}
	for _, r := range have {
		if !wanted[r.target()] {
			d.Remove = append(d.Remove, r)
		}
	}
	return d
}
