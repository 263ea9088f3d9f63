package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/ipam"
)

// The reasons why own mode cannot write the network configuration yet.
var (
	ErrNotRegistered = errors.New("the node is not registered yet")
	ErrNoPodCIDR     = errors.New("the node has no pod CIDR: run kube-controller-manager with --allocate-node-cidrs, or use another network")
)

// OwnNetworkInput is what the agent knows when it is the pod network of its node.
type OwnNetworkInput struct {
	Node  string
	Nodes []corev1.Node
	// ConfigNames are the sorted names of the files in the directory of network configurations.
	ConfigNames []string
	Options     PluginOptions
	// Settings are those of the NodeNetwork; nil without one.
	Settings *NodeNetwork
	// NodeMTU is the MTU of the interface with the node's internal IP; 0 while it is not known.
	NodeMTU int
	// Accepts returns why limpet-ipam would refuse a configuration.
	Accepts func(conf []byte) error
}

// OwnNetworkDecision is what the agent sets up as the pod network of its node.
type OwnNetworkDecision struct {
	// Foreign is the name of another network's configuration that the runtime prefers.
	// When it is set, routes and network configuration are left as they are.
	Foreign string
	Routes  []Route
	// Conflist is the content of the network configuration. With it the node becomes Ready.
	Conflist []byte
	Ranges   []string
	Sets     []ipam.Set // the same, as the pool shows them
	// Stay are targets whose routes are neither added nor removed.
	Stay []netip.Prefix
	// Configured tells how the node took the settings of the NodeNetwork; nil without one.
	Configured *metav1.Condition
	// Err says why there is no Conflist; the routes hold all the same.
	Err error
}

// OwnNetwork decides about routes and network configuration of own mode.
func OwnNetwork(in OwnNetworkInput) OwnNetworkDecision {
	if foreign := foreignConfig(in.ConfigNames); foreign != "" {
		d := OwnNetworkDecision{Foreign: foreign}
		if in.Settings != nil {
			d.Configured = configured(*in.Settings, problem{v1alpha1.ReasonForeignNetwork, fmt.Errorf("%s is the node's network configuration", foreign)}, "")
		}
		return d
	}
	d := OwnNetworkDecision{Routes: Routes(in.Node, in.Nodes)}
	settings := NodeNetwork{}
	if in.Settings != nil {
		settings = *in.Settings
		more, stay := RangeRoutes(in.Node, in.Nodes, settings.Spec.Ranges)
		d.Routes, d.Stay = append(d.Routes, more...), stay
	}
	note, err := d.configure(in, settings.Spec)
	if err != nil {
		d.Err = fmt.Errorf("network configuration of %s: %w", in.Node, err)
	}
	if in.Settings != nil {
		d.Configured = configured(settings, err, note)
	}
	return d
}

// configure decides what the network configuration holds. The note is for the condition Configured.
func (d *OwnNetworkDecision) configure(in OwnNetworkInput, spec v1alpha1.NodeNetworkSpec) (note string, err error) {
	i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == in.Node })
	if i < 0 {
		return "", ErrNotRegistered
	}
	ranges := rangeClaims(spec.Ranges)
	if err := checkShared(in.Node, in.Nodes, ranges); len(ranges) > 0 && err != nil {
		return "", err
	}
	var podCIDRs []netip.Prefix
	for _, text := range in.Nodes[i].Spec.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return "", fmt.Errorf("pod CIDR of the node: %w", err)
		}
		podCIDRs = append(podCIDRs, p.Masked())
	}
	mine := slices.DeleteFunc(ranges, func(r claim) bool { return r.node != in.Node || r.use == v1alpha1.RangeRetired })
	sets, err := rangeSets(podCIDRs, mine)
	if err != nil {
		return "", err
	}
	mtu, note, err := chooseMTU(spec, in.Nodes[i].Labels, in.NodeMTU)
	if err != nil {
		return "", err
	}
	conf := conflist(sets, mtu, in.Options)
	if in.Settings != nil && in.Accepts != nil {
		if err := in.Accepts(delegated(conf, conf["plugins"].([]object)[0])); err != nil {
			return "", problem{v1alpha1.ReasonRefused, fmt.Errorf("%s refuses these settings: %w", PluginName, err)}
		}
	}
	for _, set := range sets {
		for _, p := range set {
			d.Ranges = append(d.Ranges, p.String())
		}
	}
	d.Sets = poolSets(sets)
	d.Conflist, err = json.MarshalIndent(conf, "", "  ")
	return note, err
}

// foreignConfig returns the first file that the runtime would load in place of ours. A
// runtime loads the first name in the directory.
func foreignConfig(sorted []string) string {
	i := slices.IndexFunc(sorted, func(name string) bool { return IsConfigName(name) && name < ConflistName })
	if i < 0 {
		return ""
	}
	return sorted[i]
}

// IsConfigName reports whether runtimes read a file of this name as a network configuration.
func IsConfigName(name string) bool {
	return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(name))
}
