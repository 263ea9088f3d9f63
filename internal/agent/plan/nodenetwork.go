package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
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
func chooseMTU(spec v1alpha1.NodeNetworkSpec, node labels.Set, nodeMTU int) (mtu int32, note string, err error) {
	var groups []string
	mtu = spec.MTU
	for _, g := range spec.Groups {
		if !labels.SelectorFromSet(g.NodeLabels).Matches(node) {
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

// WithForeign adds to networks that new pods get their addresses from another plugin, where nothing is told yet.
func WithForeign(networks []Network, is *NodeIPAM) []Network {
	if is == nil || is.By != IPAMOther {
		return networks
	}
	why := problem{v1alpha1.ReasonForeignNetwork, fmt.Errorf("%s is the network configuration of the node and does not name %s", is.File, PluginName)}
	for i := range networks {
		networks[i].Configured = cmp.Or(networks[i].Configured, configured(NodeNetwork{}, why, ""))
	}
	return networks
}
