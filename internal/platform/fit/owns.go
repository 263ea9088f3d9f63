package fit

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Owns reports whether the pod CIDRs of a node have the first of some addresses, which commas separate.
func Owns(node *corev1.Node, ips string) bool {
	first, _, _ := strings.Cut(ips, ",")
	addr, err := netip.ParseAddr(first)
	return err == nil && slices.ContainsFunc(node.Spec.PodCIDRs, func(cidr string) bool {
		p, err := netip.ParsePrefix(cidr)
		return err == nil && p.Contains(addr)
	})
}
