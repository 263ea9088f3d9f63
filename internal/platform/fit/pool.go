package fit

import (
	"net/netip"
	"slices"
	"strings"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Exhausted reports whether a node has no address left for a pod that it holds none for.
// The pools that contain the pod's former addresses decide, which ips lists with commas.
// Where no pool contains them, one pool with a free address is enough.
func Exhausted(pools []limpetv1alpha1.NodeIPPool, ips string) bool {
	own := slices.DeleteFunc(slices.Clone(pools), func(p limpetv1alpha1.NodeIPPool) bool { return !HasAny(p, ips) })
	if len(own) > 0 {
		return slices.ContainsFunc(own, full)
	}
	return len(pools) > 0 && !slices.ContainsFunc(pools, func(p limpetv1alpha1.NodeIPPool) bool { return !full(p) })
}

func full(pool limpetv1alpha1.NodeIPPool) bool { return pool.Status.Total > 0 && pool.Status.Free <= 0 }

// HasAny reports whether a pool contains one of some addresses.
func HasAny(pool limpetv1alpha1.NodeIPPool, ips string) bool {
	for text := range strings.SplitSeq(ips, ",") {
		ip, err := netip.ParseAddr(text)
		if err == nil && slices.ContainsFunc(pool.Status.Ranges, func(set string) bool { return contains(set, ip) }) {
			return true
		}
	}
	return false
}

// contains reports whether an address is in a range set, such as "10.0.0.2-10.0.0.9,10.0.1.2-10.0.1.9".
func contains(rangeSet string, ip netip.Addr) bool {
	for text := range strings.SplitSeq(rangeSet, ",") {
		from, to, _ := strings.Cut(text, "-")
		first, err := netip.ParseAddr(from)
		last, err2 := netip.ParseAddr(to)
		if err == nil && err2 == nil && first.BitLen() == ip.BitLen() && first.Compare(ip) <= 0 && ip.Compare(last) <= 0 {
			return true
		}
	}
	return false
}
