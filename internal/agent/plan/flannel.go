package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/loan"
)

// FlannelBridge is the bridge unless the configuration of flannel names another one.
const FlannelBridge = "cni0"

// FlannelConf is what the network configuration of a node says of flannel.
type FlannelConf struct {
	Network string // its name
	Bridge  string
}

// FindFlannel returns what the network configuration in use says, if that is one of flannel with limpet-ipam and bridge.
func FindFlannel(files []ConfigFile) (c FlannelConf, is bool) {
	conf, is := usedConf(files)
	if !is {
		return c, false
	}
	c = FlannelConf{Bridge: FlannelBridge}
	c.Network, _ = conf["name"].(string)
	for _, p := range pluginsOf(conf) {
		ipam, _ := p["ipam"].(object)
		if p["type"] != "flannel" || ipam["type"] != PluginName {
			continue
		}
		delegate, _ := p["delegate"].(object)
		if kind := delegate["type"]; kind != nil && kind != "bridge" {
			return c, false
		}
		if name, _ := delegate["bridge"].(string); name != "" {
			c.Bridge = name
		}
		return c, c.Network != ""
	}
	return c, false
}

// FlannelSubnets reads the file in which flannel says which network it is, and which part of it this node has. Addresses
// follow on networks of IPv4 alone.
func FlannelSubnets(env []byte) (network, subnet netip.Prefix, err error) {
	for line := range strings.Lines(string(env)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "FLANNEL_NETWORK":
			network, err = netip.ParsePrefix(value)
		case "FLANNEL_SUBNET":
			subnet, err = netip.ParsePrefix(value)
		case "FLANNEL_IPV6_NETWORK":
			err = fmt.Errorf("%s: addresses follow where flannel has one network of IPv4 alone", value)
		}
		if err != nil {
			return network, subnet, fmt.Errorf("%s: %w", key, err)
		}
	}
	if network, subnet = network.Masked(), subnet.Masked(); !network.IsValid() || !subnet.IsValid() || !network.Contains(subnet.Addr()) {
		return network, subnet, fmt.Errorf("FLANNEL_SUBNET %s is no part of FLANNEL_NETWORK %s", subnet, network)
	}
	return network, subnet, nil
}

// FollowFlannel decides which routes lead to guests, and what pods that are guests of this node need. Guests are reached as
// flannel reaches the pods of their nodes: hops are its routes, by their targets. The parameter bridge is the number of the
// bridge's interface; 0 while there is none.
func FollowFlannel(in OwnNetworkInput, subnet netip.Prefix, hops []Route, bridge int) (d OwnNetworkDecision, err error) {
	i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == in.Node })
	if i < 0 {
		return d, ErrNotRegistered
	}
	if own := in.Nodes[i]; !slices.Contains(own.Spec.PodCIDRs, subnet.String()) || loan.Flannel(own.Annotations) == "" {
		return d, fmt.Errorf("addresses do not follow: flannel has %s for this node with the backend %q, and its Node the pod CIDRs %v: it must be one of them, and the backend host-gw or vxlan",
			subnet, own.Annotations[loan.FlannelBackend], own.Spec.PodCIDRs)
	}
	in.podCIDRs, in.addresses = nodeClaims(in.Nodes)
	byTarget, byNode := map[netip.Prefix]Route{}, map[string]Route{}
	for _, hop := range hops {
		byTarget[hop.To] = hop
	}
	for _, c := range in.podCIDRs {
		if hop, found := byTarget[c.prefix]; found {
			byNode[c.node] = hop
		}
	}
	in.routeTo = func(c claim) (Route, bool) {
		hop, found := byNode[c.node]
		hop.To = c.prefix
		return hop, found
	}
	d = OwnNetworkDecision{Owns: []netip.Prefix{subnet}, Told: true}
	d.Routes, d.Unreached = in.loanRoutes(d.Owns, in.podCIDRs, nil)
	for _, r := range d.Routes {
		if subnet.Contains(r.To.Addr()) { // pods of this node look for it on the bridge
			d.Proxies = append(d.Proxies, r.To.Addr())
		}
	}
	for a := range in.Guests {
		if !subnet.Contains(a) && a.Is4() {
			d.Guests = append(d.Guests, a)
		}
	}
	slices.SortFunc(d.Guests, netip.Addr.Compare)
	for _, a := range d.Guests {
		d.Proxies = append(d.Proxies, ipam.GuestGateway(netip.PrefixFrom(a, subnet.Bits())))
		if bridge != 0 {
			d.Routes = append(d.Routes, Route{To: netip.PrefixFrom(a, a.BitLen()), Link: bridge})
		}
	}
	return d, nil
}
