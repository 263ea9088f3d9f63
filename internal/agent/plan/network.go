package plan

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
}

// OwnNetworkDecision is what the agent sets up as the pod network of its node.
type OwnNetworkDecision struct {
	// Foreign is the name of another network's configuration that the runtime prefers.
	// When it is set, routes and network configuration are left as they are.
	Foreign string
	Routes  []Route
	// Conflist is the content of the network configuration. With it the node becomes Ready.
	Conflist []byte
	PodCIDRs []string
	// Err says why there is no Conflist; the routes hold all the same.
	Err error
}

// OwnNetwork decides about routes and network configuration of own mode.
func OwnNetwork(in OwnNetworkInput) OwnNetworkDecision {
	if foreign := foreignConfig(in.ConfigNames); foreign != "" {
		return OwnNetworkDecision{Foreign: foreign}
	}
	d := OwnNetworkDecision{Routes: Routes(in.Node, in.Nodes)}
	i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == in.Node })
	switch {
	case i < 0:
		d.Err = fmt.Errorf("network configuration of %s: %w", in.Node, ErrNotRegistered)
	case len(in.Nodes[i].Spec.PodCIDRs) == 0:
		d.Err = fmt.Errorf("network configuration of %s: %w", in.Node, ErrNoPodCIDR)
	default:
		d.PodCIDRs = in.Nodes[i].Spec.PodCIDRs
		d.Conflist, d.Err = conflist(d.PodCIDRs, in.Options)
	}
	return d
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
