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

// sharedAddresses says that two claims cannot both count.
func sharedAddresses(c, other claim, remedy string) error {
	return problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("%s shares addresses with %s. Remedy: %s", c, other, remedy)}
}

// mine returns those of the node's ranges that new pods may get addresses of; an error if another node has addresses of
// this node. A range with the address of another node, whose kubelet may have invented it, is left out, unless the node has
// it already: then the address came later. A range that stands instead of a pod CIDR cannot be left out: the node keeps
// what it had.
func (in OwnNetworkInput) mine(ranges, counting []claim) (left []claim, note string, leftOut, err error) {
	own := slices.DeleteFunc(slices.Clone(in.addresses), func(a claim) bool { return a.node != in.Node })
	without, had := 0, applied(in.Current)
	for _, c := range slices.Concat(ranges, counting) {
		if c.node != in.Node {
			continue
		}
		isRange := c.use != ""
		other, shared := sharedWith(c, ranges, counting)
		if !shared && isRange {
			other, shared = sharedWith(c, own)
		}
		switch {
		case shared && len(ranges) > 0:
			return nil, "", nil, sharedAddresses(c, other, "give one of them another range")
		case !isRange || c.use == v1alpha1.RangeRetired:
			continue
		}
		switch other, found := sharedWith(c, in.addresses); {
		case !found:
		case slices.Contains(had, c.prefix):
			note = fmt.Sprintf("%s shares addresses with %s, which came later: the range stays", c, other)
		default:
			err := sharedAddresses(c, other, "take another range, or look why that node has such an address")
			if c.use == v1alpha1.RangeInstead {
				return nil, "", nil, err
			}
			without++
			leftOut = cmp.Or(leftOut, err)
			continue
		}
		left = append(left, c)
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

// routes lists the routes that the node needs: to each pod CIDR, and for the ranges of all nodes. A range that shares
// addresses with others gets no route, but keeps the one that it has: a more specific route would take packets from the
// pods of another node.
func (in OwnNetworkInput) routes(podCIDRs, ranges []claim) (routes []Route, disputed []netip.Prefix) {
	for _, c := range slices.Concat(podCIDRs, ranges) {
		route, found := in.routeTo(c)
		if found && c.use != "" {
			within := func(p claim) bool { return p.node == c.node && p.prefix == c.prefix } // it has a route already
			found = !slices.ContainsFunc(podCIDRs, within)
			if _, shared := sharedWith(c, ranges, podCIDRs, in.addresses); found && shared {
				disputed, found = append(disputed, c.prefix), false
			}
		}
		if found {
			routes = append(routes, route)
		}
	}
	return routes, disputed
}
