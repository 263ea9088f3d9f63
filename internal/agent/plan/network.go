package plan

import (
	"cmp"
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
	ErrUntold        = errors.New("the API server has not told whether there is a NodeNetwork")
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
	// Untold means that the API server has not told whether there is a NodeNetwork: Settings are those of the record.
	// Waited means that a node which has no network configuration, and no record, has waited long enough for that.
	Untold, Waited bool
	// NodeMTU is the MTU of the interface with the node's internal IP; 0 while it is not known.
	NodeMTU int
	// Applied are the ranges of the network configuration as the node has it.
	Applied []netip.Prefix
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
	// Stay are targets whose routes are neither added nor removed; 0.0.0.0/0 and ::/0 are all other routes.
	Stay []netip.Prefix
	// Configured tells how the node took the settings of the NodeNetwork; nil without one.
	Configured *metav1.Condition
	// Told means that Configured is known, also where it is nil.
	Told bool
	// Err says why there is no Conflist; the routes hold all the same.
	Err error
}

// OwnNetwork decides about routes and network configuration of own mode.
func OwnNetwork(in OwnNetworkInput) OwnNetworkDecision {
	told := !in.Untold || in.Waited
	if foreign := foreignConfig(in.ConfigNames); foreign != "" {
		d := OwnNetworkDecision{Foreign: foreign, Told: told}
		if in.Settings != nil {
			d.Configured = configured(*in.Settings, problem{v1alpha1.ReasonForeignNetwork, fmt.Errorf("%s is the node's network configuration", foreign)}, "")
		}
		return d
	}
	d := OwnNetworkDecision{Routes: Routes(in.Node, in.Nodes), Told: told}
	if in.Untold {
		d.Stay = []netip.Prefix{allIPv4, allIPv6} // pods may have addresses of ranges that the record does not know
		if in.Settings == nil && (!in.Waited || slices.Contains(in.ConfigNames, ConflistName)) {
			d.Err = fmt.Errorf("network configuration of %s: %w", in.Node, ErrUntold)
			return d
		}
	}
	settings := NodeNetwork{}
	if in.Settings != nil {
		settings = *in.Settings
		more, stay := RangeRoutes(in.Node, in.Nodes, settings.Spec.Ranges)
		d.Routes, d.Stay = append(d.Routes, more...), append(d.Stay, stay...)
	}
	note, leftOut, err := d.configure(in, settings.Spec)
	if err != nil {
		d.Err = fmt.Errorf("network configuration of %s: %w", in.Node, err)
	}
	if in.Settings != nil {
		d.Configured = configured(settings, cmp.Or(err, leftOut), note)
	}
	return d
}

// configure decides what the network configuration holds. The note, and what is left out, are for the condition
// Configured.
func (d *OwnNetworkDecision) configure(in OwnNetworkInput, spec v1alpha1.NodeNetworkSpec) (note string, leftOut, err error) {
	i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == in.Node })
	if i < 0 {
		return "", nil, ErrNotRegistered
	}
	ranges := rangeClaims(spec.Ranges)
	if err := checkShared(in.Node, in.Nodes, ranges); len(ranges) > 0 && err != nil {
		return "", nil, err
	}
	var podCIDRs []netip.Prefix
	for _, text := range in.Nodes[i].Spec.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return "", nil, fmt.Errorf("pod CIDR of the node: %w", err)
		}
		podCIDRs = append(podCIDRs, p.Masked())
	}
	mine := slices.DeleteFunc(ranges, func(r claim) bool { return r.node != in.Node || r.use == v1alpha1.RangeRetired })
	mine, later, leftOut, err := undisputed(mine, in.Nodes, in.Applied)
	if err != nil {
		return "", nil, err
	}
	sets, err := rangeSets(podCIDRs, mine)
	if err != nil {
		return "", nil, err
	}
	mtu, note, err := chooseMTU(spec, in.Nodes[i].Labels, in.NodeMTU)
	if err != nil {
		return "", nil, err
	}
	conf := conflist(sets, mtu, in.Options)
	if in.Settings != nil && in.Accepts != nil {
		if err := in.Accepts(delegated(conf, conf["plugins"].([]object)[0])); err != nil {
			return "", nil, problem{v1alpha1.ReasonRefused, fmt.Errorf("%s refuses these settings: %w", PluginName, err)}
		}
	}
	for _, set := range sets {
		for _, p := range set {
			d.Ranges = append(d.Ranges, p.String())
		}
	}
	d.Sets = poolSets(sets)
	d.Conflist, err = json.MarshalIndent(conf, "", "  ")
	return cmp.Or(later, note), leftOut, err
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
