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

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// The reasons why own mode cannot write the network configuration yet.
var (
	ErrNotRegistered = errors.New("the node is not registered yet")
	ErrUntold        = errors.New("the API server has not told whether there is a NodeNetwork")
	ErrNoPodCIDR     = errors.New("the node has no pod CIDR: run kube-controller-manager with --allocate-node-cidrs, or use another network")
)

// OwnNetworkInput is what the agent knows when it is the pod network of its node.
type OwnNetworkInput struct {
	Node string
	// Network is its name.
	Network string
	Nodes   []corev1.Node
	// Configs are the network configurations of the node, sorted by name. Current is the content of its own.
	Configs []ConfigFile
	Current []byte
	Options PluginOptions
	// Settings are those of the NodeNetwork; nil without one.
	Settings *NodeNetwork
	// Untold means that the API server has not told whether there is a NodeNetwork: Settings are those of the record.
	// Waited means that a node which has no network configuration, and no record, has waited long enough for that.
	Untold, Waited bool
	// NodeMTU is the MTU of the interface with the node's internal IP; 0 while it is not known.
	NodeMTU int
	// Have are the routes of the agent.
	Have []Route
	// PodNetworks are the networks in which pod CIDRs must be; empty for the default. Services are the networks of
	// services, and addresses of the API server, as far as they are known.
	PodNetworks []netip.Prefix
	Services    []netip.Prefix

	// Loans are those of the cluster. While the API server has not told them, LoansUntold, routes of loans stay.
	Loans       []*v1alpha1.BorrowedAddress
	LoansUntold bool
	// Lent are the addresses that this node has lent, by its state, Held those that it has for pods, and Guests those of them that
	// it has borrowed.
	Lent, Held, Guests map[netip.Addr]bool

	// Accepts returns why limpet-ipam would refuse a configuration.
	Accepts func(conf []byte) error

	podCIDRs, addresses []claim // of Nodes
	routeTo             func(claim) (Route, bool)
}

// OwnNetworkDecision is what the agent sets up as the pod network of its node.
type OwnNetworkDecision struct {
	// Foreign is the name of another network's configuration that the runtime prefers.
	// When it is set, routes and network configuration are left as they are.
	Foreign string
	Routes  []Route
	// Unreached is the number of guests to whose node no route leads.
	Unreached int
	// Guests are the addresses of other nodes that pods of this node have below flannel, and Proxies those for which the node
	// answers there.
	Guests, Proxies []netip.Addr
	// Owns are the ranges of this node, also those of which new pods get no addresses. Fresh means that the node does not
	// have some of the ranges of Conflist yet.
	Owns  []netip.Prefix
	Fresh bool
	// Refused says which pod CIDRs count for nothing.
	Refused error
	// Conflist is the content of the network configuration. With it the node becomes Ready.
	Conflist []byte
	Ranges   []string
	Sets     []ipam.Set // the same, as the pool shows them
	// Shared is the name of a network that nodes share; "" for none.
	Shared string
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
	if foreign := foreignConfig(in.Configs); foreign != "" {
		d := OwnNetworkDecision{Foreign: foreign, Told: told}
		if in.Settings != nil {
			d.Configured = configured(*in.Settings, problem{v1alpha1.ReasonForeignNetwork, fmt.Errorf("%s is the node's network configuration", foreign)}, "")
		}
		return d
	}
	settings := NodeNetwork{}
	if in.Settings != nil {
		settings = *in.Settings
	}
	in.podCIDRs, in.addresses = nodeClaims(in.Nodes)
	in.routeTo = in.router()
	ranges := rangeClaims(settings.Spec.Ranges)
	podCIDRs, refused := in.owners(ranges)
	d := OwnNetworkDecision{Refused: refused, Told: told}
	var disputed []netip.Prefix
	d.Routes, disputed = in.routes(podCIDRs, ranges)
	for _, r := range RouteChanges(in.Have, d.Routes).Remove { // untold, pods may have addresses of ranges that the record does not know
		if !r.To.IsSingleIP() && (in.Untold || slices.Contains(disputed, r.To)) {
			d.Routes = append(d.Routes, r)
		}
	}
	d.Owns = in.owned(podCIDRs, ranges)
	guests, unreached := in.loanRoutes(d.Owns, podCIDRs, ranges)
	d.Routes, d.Unreached = append(d.Routes, guests...), unreached
	if in.Untold && in.Settings == nil && (!in.Waited || in.Current != nil) {
		d.Err = fmt.Errorf("network configuration of %s: %w", in.Node, ErrUntold)
		return d
	}
	note, leftOut, err := d.configure(in, settings.Spec, ranges, podCIDRs)
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
func (d *OwnNetworkDecision) configure(in OwnNetworkInput, spec v1alpha1.NodeNetworkSpec, ranges, counting []claim) (note string, leftOut, err error) {
	i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == in.Node })
	if i < 0 {
		return "", nil, ErrNotRegistered
	}
	mine, later, leftOut, err := in.mine(ranges, counting)
	if err != nil {
		return "", nil, err
	}
	var podCIDRs []netip.Prefix
	for _, c := range in.podCIDRs {
		if c.node != in.Node {
			continue
		}
		if !slices.Contains(counting, c) && len(prefixes(mine, v1alpha1.RangeInstead, c.prefix.Addr().Is4())) == 0 {
			return "", nil, problem{v1alpha1.ReasonSharedAddresses, fmt.Errorf("%s counts for nothing. Remedy: give the node another pod CIDR, or a range instead", c)}
		}
		podCIDRs = append(podCIDRs, c.prefix)
	}
	sets, err := rangeSets(podCIDRs, mine)
	if err != nil {
		return "", nil, err
	}
	mtu, note, err := chooseMTU(spec, in.Nodes[i].Labels, in.NodeMTU)
	if err != nil {
		return "", nil, err
	}
	conf := conflist(in.Node, sets, mtu, in.Options, chained(in.Current))
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
	had := applied(in.Current)
	d.Fresh = slices.ContainsFunc(slices.Concat(sets...), func(p netip.Prefix) bool { return !slices.Contains(had, p) })
	d.Sets = poolSets(sets)
	d.Conflist, err = json.MarshalIndent(conf, "", "  ")
	if same(d.Conflist, in.Current) { // as another owner has written it
		d.Conflist = in.Current
	}
	return cmp.Or(later, note), leftOut, err
}

// foreignConfig returns the first file that the runtime would load in place of ours. A
// runtime loads the first name in the directory. One that has a copy of ours, or delegates to it, is none.
func foreignConfig(sorted []ConfigFile) string {
	i := slices.IndexFunc(sorted, func(f ConfigFile) bool { return f.Name < ConflistName && !delegatesToOurs(f.Data) })
	if i < 0 {
		return ""
	}
	return sorted[i].Name
}

// delegatesToOurs reports whether a configuration is a copy of that of the own network with more plugins, as Istio can
// keep one, or delegates to it: then it holds a copy, or no copy of any network.
func delegatesToOurs(data []byte) bool {
	conf, err := decodeObject(data)
	if err == nil && conf["name"] == NetworkName && namesLimpet(conf) {
		return true
	}
	return err == nil && delegates(conf) && (namesLimpet(conf) || !slices.ContainsFunc(pluginsOf(conf), func(p object) bool { return p["delegates"] != nil }))
}

// IsConfigName reports whether runtimes read a file of this name as a network configuration.
func IsConfigName(name string) bool {
	return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(name))
}
