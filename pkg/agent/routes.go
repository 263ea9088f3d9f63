package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// routeProtocol marks the routes that this agent made; it touches no others.
const routeProtocol netlink.RouteProtocol = 0x4c

// Route leads to the pods of another node.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// PlanRoutes lists the routes that the node called self needs: to each pod CIDR of
// every other node by way of that node's internal IP of the same family. A node
// without one gets none.
func PlanRoutes(self string, nodes []corev1.Node) []Route {
	var routes []Route
	for _, n := range nodes {
		if n.Name == self {
			continue
		}
		for _, text := range n.Spec.PodCIDRs {
			to, err := netip.ParsePrefix(text)
			if err != nil {
				continue // the API server validates it
			}
			if via, found := internalIP(n, to.Addr().Is4()); found {
				routes = append(routes, Route{To: to.Masked(), Via: via})
			}
		}
	}
	slices.SortFunc(routes, func(a, b Route) int { return a.To.Addr().Compare(b.To.Addr()) })
	return routes
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

// ApplyRoutes makes the agent's routes on this node those that are wanted: missing
// ones are added, its own others removed, and everybody else's left alone, also where
// one of them is in the way.
func ApplyRoutes(h *netlink.Handle, want []Route) error {
	have, err := ownRoutes(h)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range want {
		if slices.Contains(have, r) {
			continue
		}
		set := h.RouteAdd
		if slices.ContainsFunc(have, r.sameTarget) {
			set = h.RouteReplace
		}
		if err := set(r.netlink()); err != nil {
			errs = append(errs, fmt.Errorf("route %s via %s: %w", r.To, r.Via, err))
		}
	}
	for _, r := range have {
		if slices.ContainsFunc(want, r.sameTarget) {
			continue // kept, or replaced above
		}
		if err := h.RouteDel(r.netlink()); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route %s: %w", r.To, err))
		}
	}
	return errors.Join(errs...)
}

func ownRoutes(h *netlink.Handle) ([]Route, error) {
	var own []Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		all, err := h.RouteListFiltered(family, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range all {
			if r.Dst == nil {
				continue
			}
			to, _ := netip.AddrFromSlice(r.Dst.IP)
			via, _ := netip.AddrFromSlice(r.Gw)
			bits, _ := r.Dst.Mask.Size()
			own = append(own, Route{To: netip.PrefixFrom(to.Unmap(), bits), Via: via.Unmap()})
		}
	}
	return own, nil
}

func (r Route) sameTarget(o Route) bool { return r.To == o.To }

func (r Route) netlink() *netlink.Route {
	return &netlink.Route{
		Protocol: routeProtocol, Gw: net.IP(r.Via.AsSlice()),
		Dst: &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())},
	}
}
