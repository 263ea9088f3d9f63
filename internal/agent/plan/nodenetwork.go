package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/ipam"
)

// NodeNetwork is what the agent knows of the NodeNetwork.
type NodeNetwork struct {
	Spec       v1alpha1.NodeNetworkSpec `json:"spec"`
	Generation int64                    `json:"generation"`
	// Deleted means that the object is gone, and that this is how the agent last saw it.
	Deleted bool `json:"-"`
}

// Empty reports whether the settings are those of a node without a NodeNetwork.
func (n NodeNetwork) Empty() bool {
	return n.Spec.MTU == 0 && len(n.Spec.Groups) == 0 && len(n.Spec.Ranges) == 0
}

// NetworkName is the name of the network of own mode.
const NetworkName = v1alpha1.NodeNetworkName

// problem says why a node cannot have its settings, with the reason of its condition.
type problem struct {
	reason string
	err    error
}

func (p problem) Error() string { return p.err.Error() }
func (p problem) Unwrap() error { return p.err }

// Failed notes that the routes or the network configuration of a decision could not be set.
func (d *OwnNetworkDecision) Failed(err error) {
	if err != nil && d.Configured != nil {
		c := *d.Configured
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonFailed, bounded(err.Error())
		d.Configured = &c
	}
}

// maxConfigured is the longest message of the condition Configured, in bytes.
const maxConfigured = 512

// configured returns the condition that tells how a node took the settings.
func configured(n NodeNetwork, err error, note string) *metav1.Condition {
	c := &metav1.Condition{
		Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, ObservedGeneration: n.Generation, Reason: v1alpha1.ReasonApplied, Message: note,
	}
	switch {
	case err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonFailed, err.Error()
		if p, ok := errors.AsType[problem](err); ok {
			c.Reason = p.reason
		}
	case n.Deleted:
		c.Reason = v1alpha1.ReasonNodeNetworkDeleted
		c.Message = "the NodeNetwork was deleted: its settings stay on this node until there is another one"
	}
	c.Message = bounded(c.Message)
	return c
}

func bounded(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxConfigured)], "")
}

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

// nodeClaims returns the pod CIDRs of nodes, and their own addresses.
func nodeClaims(nodes []corev1.Node) (podCIDRs, addresses []claim) {
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				podCIDRs = append(podCIDRs, claim{prefix: p.Masked(), node: n.Name})
			}
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				addresses = append(addresses, claim{prefix: netip.PrefixFrom(ip, ip.BitLen()), node: n.Name})
			}
		}
	}
	return podCIDRs, addresses
}

// sharedWith returns another claim that has addresses of a range: a range or a pod CIDR of another node, or an address
// of any node.
func sharedWith(r claim, ranges, podCIDRs, addresses []claim) (claim, bool) {
	other := func(c claim) bool { return c.node != r.node && c.prefix.Overlaps(r.prefix) }
	for _, claims := range [][]claim{ranges, podCIDRs} {
		if i := slices.IndexFunc(claims, other); i >= 0 {
			return claims[i], true
		}
	}
	if i := slices.IndexFunc(addresses, func(c claim) bool { return c.prefix.Overlaps(r.prefix) }); i >= 0 {
		return addresses[i], true
	}
	return claim{}, false
}

// checkShared returns an error if another node has addresses of this node.
func checkShared(self string, nodes []corev1.Node, ranges []claim) error {
	podCIDRs, addresses := nodeClaims(nodes)
	for _, r := range ranges {
		if r.node != self {
			continue
		}
		if other, shared := sharedWith(r, ranges, podCIDRs, addresses); shared {
			return problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("%s shares addresses with %s. Remedy: take another range", r, other)}
		}
	}
	for _, own := range podCIDRs {
		if own.node != self {
			continue
		}
		if i := slices.IndexFunc(ranges, func(r claim) bool { return r.node != self && r.prefix.Overlaps(own.prefix) }); i >= 0 {
			return problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("%s shares addresses with %s. Remedy: give that node another range", own, ranges[i])}
		}
	}
	return nil
}

// RangeRoutes lists the routes to the ranges of other nodes. A range that shares addresses with others gets no route,
// but keeps the one that it has: a more specific route would take packets from the pods of another node.
func RangeRoutes(self string, nodes []corev1.Node, ranges []v1alpha1.NodeRange) (routes []Route, stay []netip.Prefix) {
	claims := rangeClaims(ranges)
	if len(claims) == 0 {
		return nil, nil
	}
	podCIDRs, addresses := nodeClaims(nodes)
	for _, r := range claims {
		i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == r.node })
		if r.node == self || i < 0 {
			continue
		}
		if _, shared := sharedWith(r, claims, podCIDRs, addresses); shared {
			stay = append(stay, r.prefix)
			continue
		}
		within := func(c claim) bool { return c.node == r.node && c.prefix == r.prefix } // it has a route already
		if via, found := internalIP(nodes[i], r.prefix.Addr().Is4()); found && !slices.ContainsFunc(podCIDRs, within) {
			routes = append(routes, Route{To: r.prefix, Via: via})
		}
	}
	return routes, stay
}

// rangeSets returns the range sets of a node: one for each family, with the pod CIDR or the ranges that stand instead of
// it, and then the further ones. The family of the first pod CIDR is that of the pods' first address.
func rangeSets(podCIDRs []netip.Prefix, mine []claim) ([][]netip.Prefix, error) {
	families := []bool{true, false} // whether it is IPv4
	if len(podCIDRs) > 0 && podCIDRs[0].Addr().Is6() {
		families = []bool{false, true}
	}
	var sets [][]netip.Prefix
	for _, v4 := range families {
		set, further := prefixes(mine, v1alpha1.RangeInstead, v4), prefixes(mine, v1alpha1.RangeFurther, v4)
		if len(set) == 0 {
			set = slices.DeleteFunc(slices.Clone(podCIDRs), func(p netip.Prefix) bool { return p.Addr().Is4() != v4 })
		}
		switch {
		case len(set) > 0:
			sets = append(sets, append(set, further...))
		case len(further) > 0:
			return nil, problem{v1alpha1.ReasonNoRange, fmt.Errorf("the node has no pod CIDR to which %s is further. Remedy: set use to Instead", further[0])}
		}
	}
	if len(sets) == 0 {
		return nil, problem{v1alpha1.ReasonNoRange, ErrNoPodCIDR}
	}
	return sets, nil
}

// prefixes returns the ranges of one use and family.
func prefixes(of []claim, use v1alpha1.RangeUse, v4 bool) (found []netip.Prefix) {
	for _, c := range of {
		if c.use == use && c.prefix.Addr().Is4() == v4 {
			found = append(found, c.prefix)
		}
	}
	return found
}

// chooseMTU returns the MTU of a node's pods, 0 for that of the kernel. The note names groups that count for nothing on
// this node.
func chooseMTU(spec v1alpha1.NodeNetworkSpec, labels map[string]string, nodeMTU int) (mtu int32, note string, err error) {
	var groups []string
	mtu = spec.MTU
	for _, g := range spec.Groups {
		if !hasLabels(labels, g.NodeLabels) {
			continue
		}
		if len(groups) == 0 {
			mtu = g.MTU
		}
		groups = append(groups, g.Name)
	}
	if len(groups) > 1 {
		note = fmt.Sprintf("group %s counts; the node is also one of %s", groups[0], strings.Join(groups[1:], ", "))
	}
	if nodeMTU > 0 && int(mtu) > nodeMTU {
		return 0, "", problem{v1alpha1.ReasonMTUTooLarge, fmt.Errorf("the MTU %d is larger than %d, that of the interface with the node's internal IP. Remedy: set a smaller MTU, or put the node into a group of its own", mtu, nodeMTU)}
	}
	return mtu, note, nil
}

func hasLabels(labels, want map[string]string) bool {
	for key, value := range want {
		if got, there := labels[key]; !there || got != value {
			return false
		}
	}
	return true
}

// poolSets returns range sets as the pool of a node shows them; nil where limpet-ipam would refuse them.
func poolSets(sets [][]netip.Prefix) []ipam.Set {
	of := make([]ipam.Set, len(sets))
	for i, set := range sets {
		for _, p := range set {
			of[i] = append(of[i], ipam.Range{Subnet: p})
		}
	}
	complete, err := ipam.CompleteSets(of)
	if err != nil {
		return nil
	}
	return complete
}

// WithOwnNetwork adds to networks how the node took the settings of the NodeNetwork. A network that no pod has used yet
// is in no state file.
func WithOwnNetwork(networks []Network, d OwnNetworkDecision) []Network {
	if d.Configured == nil {
		return networks
	}
	for i := range networks {
		if networks[i].Name == NetworkName {
			networks[i].Configured = d.Configured
			return networks
		}
	}
	return append(networks, Network{Name: NetworkName, Sets: d.Sets, Configured: d.Configured})
}
