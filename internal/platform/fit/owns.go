package fit

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Owns reports whether the pod CIDRs of a node have some of several addresses, which commas separate, and whether they have all.
func Owns(node *corev1.Node, ips string) (some, all bool) {
	all = true
	for ip := range strings.SplitSeq(ips, ",") {
		addr, err := netip.ParseAddr(ip)
		has := err == nil && slices.ContainsFunc(node.Spec.PodCIDRs, func(cidr string) bool {
			p, err := netip.ParsePrefix(cidr)
			return err == nil && p.Contains(addr)
		})
		some, all = some || has, all && has
	}
	return some, all
}
