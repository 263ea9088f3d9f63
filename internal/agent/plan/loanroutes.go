package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// owned returns the ranges of this node.
func (in OwnNetworkInput) owned(podCIDRs, ranges []claim) (own []netip.Prefix) {
	for _, c := range slices.Concat(podCIDRs, ranges) {
		if c.node == in.Node {
			own = append(own, c.prefix)
		}
	}
	return own
}

// loanRoutes lists the routes to the guests of other nodes, one for each address. A loan of which its home has no address, or
// of an address that a node or a service has, leads nowhere: such a route would take packets from others. While loans are
// untold, those of before stay. Unreached is the number of guests to whose node no route leads.
func (in OwnNetworkInput) loanRoutes(own []netip.Prefix, podCIDRs, ranges []claim) (routes []Route, unreached int) {
	claims, networks, taken := map[string][]netip.Prefix{}, in.podNetworks(), map[netip.Addr]bool{}
	for _, n := range in.Nodes {
		claims[n.Name] = nil
	}
	for _, c := range slices.Concat(podCIDRs, ranges) {
		claims[c.node] = append(claims[c.node], c.prefix)
	}
	for _, c := range ranges {
		networks = append(networks, c.prefix)
	}
	for _, c := range in.addresses {
		taken[c.prefix.Addr()] = true
	}
	wanted := map[netip.Addr]Route{}
	for _, o := range in.guests() {
		home, known := claims[o.Status.Home]
		_, addrs, _ := LoanOwner(o, in.Network)
		if known && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return within(a, home) }) {
			continue
		}
		for _, a := range addrs {
			r, found := in.routeTo(claim{prefix: netip.PrefixFrom(a, a.BitLen()), node: o.Status.Borrower})
			switch {
			case !in.away(a, own) || !within(a, networks) || taken[a] || within(a, in.Services):
			case found:
				wanted[a] = r
			default:
				unreached++
			}
		}
	}
	for _, r := range in.Have {
		if a := r.To.Addr(); in.LoansUntold && r.To.IsSingleIP() && !wanted[a].To.IsValid() && in.away(a, own) {
			wanted[a] = r
		}
	}
	for _, r := range wanted {
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b Route) int { return a.To.Compare(b.To) })
	return routes, unreached
}

// guests returns the loans with a guest on another node, the newest last.
func (in OwnNetworkInput) guests() []*v1alpha1.BorrowedAddress {
	all := slices.DeleteFunc(slices.Clone(in.Loans), func(o *v1alpha1.BorrowedAddress) bool {
		phase, at := loan.Phase(o.Status.Phase), o.Status.Borrower
		return phase != loan.Lent && phase != loan.Ending || at == "" || at == loan.Unknown || at == in.Node
	})
	slices.SortFunc(all, func(a, b *v1alpha1.BorrowedAddress) int {
		return cmp.Or(cmp.Compare(a.Status.Epoch, b.Status.Epoch), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}

// away reports whether an address is one that no pod of this node may get, whatever a cache shows: this node has lent it, or
// has nothing to do with it.
func (in OwnNetworkInput) away(a netip.Addr, own []netip.Prefix) bool {
	return in.Lent[a] || !in.Held[a] && !within(a, own)
}
