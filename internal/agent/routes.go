package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// routeProtocol marks the routes that the agent made; it touches no others.
const routeProtocol netlink.RouteProtocol = 0x4c

// lastMetric lets each other route with the same target, such as that of a bridge, take precedence over one that refuses
// packets.
const lastMetric = 1<<32 - 2

// ApplyRoutes adds, replaces and removes the agent's routes on this node until they are the
// wanted ones. Routes of other programs stay. Where such a route has the same target, the
// wanted route fails.
func ApplyRoutes(h *netlink.Handle, want []plan.Route) error {
	have, err := ownRoutes(h)
	if err != nil {
		return err
	}
	_, err = changeRoutes(h, plan.RouteChanges(have, want))
	return err
}

// makeRoutes changes the agent's routes to those of a decision, and shows how many guests they do not reach.
func (a *Agent) makeRoutes(have []plan.Route, d plan.OwnNetworkDecision) error {
	failed, err := changeRoutes(a.cluster.links, plan.RouteChanges(have, d.Routes))
	a.metrics.unreached.Set(float64(d.Unreached + failed))
	return err
}

// changeRoutes changes routes. It returns how many to single addresses could not be made.
func changeRoutes(h *netlink.Handle, d plan.RouteDecision) (failed int, err error) {
	var errs []error
	change := func(verb string, do func(*netlink.Route) error, routes []plan.Route) {
		for _, r := range routes {
			if err := do(toNetlink(r)); err != nil {
				errs = append(errs, fmt.Errorf("%s route %s via %s: %w", verb, r.To, r.Via, err))
				if r.To.IsSingleIP() {
					failed++
				}
			}
		}
	}
	change("add", h.RouteAdd, d.Add)
	change("replace", h.RouteReplace, d.Replace)
	for _, r := range d.Remove {
		if err := h.RouteDel(toNetlink(r)); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: gone already
			errs = append(errs, fmt.Errorf("remove route %s: %w", r.To, err))
		}
	}
	return failed, errors.Join(errs...)
}

func ownRoutes(h *netlink.Handle) ([]plan.Route, error) {
	var own []plan.Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		all, err := h.RouteListFiltered(family, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range all {
			if r.Dst == nil {
				continue
			}
			own = append(own, fromNetlink(r))
		}
	}
	return own, nil
}

func fromNetlink(r netlink.Route) plan.Route {
	to, _ := netip.AddrFromSlice(r.Dst.IP)
	via, _ := netip.AddrFromSlice(r.Gw)
	bits, _ := r.Dst.Mask.Size()
	is := plan.Route{To: netip.PrefixFrom(to.Unmap(), bits), Via: via.Unmap()}
	if r.Type == unix.RTN_UNICAST && !via.IsValid() { // to a pod of this node
		is.Link = r.LinkIndex
	}
	return is
}

func toNetlink(r plan.Route) *netlink.Route {
	to := &netlink.Route{
		Protocol: routeProtocol, Gw: net.IP(r.Via.AsSlice()), LinkIndex: r.Link,
		Dst: &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())},
	}
	if r.Onlink {
		to.Flags = unix.RTNH_F_ONLINK
	}
	if r.Link != 0 && !r.Via.IsValid() {
		to.Scope = netlink.SCOPE_LINK
	}
	if r.Refuses() {
		to.Type, to.Priority = unix.RTN_UNREACHABLE, lastMetric
	}
	return to
}
