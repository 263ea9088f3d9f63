package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// claim is addresses that belong to a node.
type claim struct {
	prefix netip.Prefix
	node   string
	use    v1alpha1.RangeUse // empty for a pod CIDR, or for an address of the node itself
}

func (c claim) String() string {
	if c.use == "" {
		return fmt.Sprintf("%s of node %s", c.prefix, c.node)
	}
	return fmt.Sprintf("range %s of node %s", c.prefix, c.node)
}

// rangeClaims returns the ranges of a NodeNetwork. The API server has refused others than CIDRs.
func rangeClaims(ranges []v1alpha1.NodeRange) []claim {
	var claims []claim
	for _, r := range ranges {
		if p, err := netip.ParsePrefix(r.CIDR); err == nil {
			claims = append(claims, claim{p.Masked(), r.Node, r.Use})
		}
	}
	return claims
}

// nodeClaims returns the pod CIDRs of nodes, and their own addresses: those to which routes lead, one of each family. A
// kubelet writes the addresses of its Node, and may write many that it does not have.
func nodeClaims(nodes []corev1.Node) (podCIDRs, addresses []claim) {
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				podCIDRs = append(podCIDRs, claim{prefix: p.Masked(), node: n.Name})
			}
		}
		for _, v4 := range []bool{true, false} {
			if ip, found := internalIP(n, v4); found {
				addresses = append(addresses, claim{prefix: netip.PrefixFrom(ip, ip.BitLen()), node: n.Name})
			}
		}
	}
	return podCIDRs, addresses
}

// sharedWith returns another claim with addresses of a claim: one of another node, or an address.
func sharedWith(c claim, among ...[]claim) (claim, bool) {
	for _, all := range among {
		for _, o := range all {
			if o.prefix.Overlaps(c.prefix) && (o.node != c.node || o.prefix.IsSingleIP()) {
				return o, true
			}
		}
	}
	return claim{}, false
}

// checkShared returns an error if another node has addresses of this node.
func checkShared(self string, nodes []corev1.Node, ranges, podCIDRs []claim) error {
	_, addresses := nodeClaims(nodes)
	addresses = slices.DeleteFunc(addresses, func(a claim) bool { return a.node != self }) // see undisputed
	for _, c := range slices.Concat(ranges, podCIDRs) {
		if c.node != self {
			continue
		}
		other, shared := sharedWith(c, ranges, podCIDRs)
		if !shared && c.use != "" {
			other, shared = sharedWith(c, addresses)
		}
		if shared {
			return problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("%s shares addresses with %s. Remedy: give one of them another range", c, other)}
		}
	}
	return nil
}

// undisputed returns those of a node's ranges that new pods may get addresses of. A range with the address of another
// node, whose kubelet may have invented it, is left out, unless the node has it already: then the address came later. A
// range that stands instead of a pod CIDR cannot be left out: the node keeps what it had.
func undisputed(mine []claim, nodes []corev1.Node, applied []netip.Prefix) (left []claim, note string, leftOut, err error) {
	without := 0
	_, addresses := nodeClaims(nodes)
	for _, r := range mine {
		other, found := sharedWith(r, addresses)
		p := problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("%s shares addresses with %s. Remedy: take another range, or look why that node has such an address", r, other)}
		switch {
		case !found:
		case slices.Contains(applied, r.prefix):
			note = fmt.Sprintf("%s shares addresses with %s, which came later: the range stays", r, other)
		case r.use == v1alpha1.RangeInstead:
			return nil, "", nil, p
		default:
			without++
			leftOut = cmp.Or(leftOut, error(p))
			continue
		}
		left = append(left, r)
	}
	if without > 0 {
		leftOut = problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("all settings but %d are applied: %w", without, leftOut)}
	}
	return left, note, leftOut, nil
}

// applied returns the ranges of a network configuration; none of one that cannot be read.
func applied(conflist []byte) (ranges []netip.Prefix) {
	var conf struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet netip.Prefix }
			}
		}
	}
	if json.Unmarshal(conflist, &conf) != nil {
		return nil
	}
	for _, p := range conf.Plugins {
		for _, r := range slices.Concat(p.IPAM.Ranges...) {
			ranges = append(ranges, r.Subnet)
		}
	}
	return ranges
}

// rangeRoutes lists the routes for the ranges of all nodes. A range that shares addresses with others gets no route,
// but keeps the one that it has: a more specific route would take packets from the pods of another node.
func (in OwnNetworkInput) rangeRoutes(ranges, podCIDRs []claim) (routes []Route, disputed []netip.Prefix) {
	_, addresses := nodeClaims(in.Nodes)
	for _, r := range ranges {
		route, found := in.routeTo(r)
		within := func(c claim) bool { return c.node == r.node && c.prefix == r.prefix } // it has a route already
		if !found || slices.ContainsFunc(podCIDRs, within) {
			continue
		}
		if _, shared := sharedWith(r, ranges, podCIDRs, addresses); shared {
			disputed = append(disputed, r.prefix)
			continue
		}
		routes = append(routes, route)
	}
	return routes, disputed
}
