package plan

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/ipam"
)

// SharedConf is a network configuration that says that the nodes share an L2 segment.
type SharedConf struct {
	Network string // its name, the same on all nodes of the segment
	Kind    string // the interface plugin
	Conf    []byte // what limpet-ipam reads
}

// FindShared returns what the network configuration in use says, if that is one whose ipam.sharedNetwork is true.
func FindShared(files []ConfigFile) (c SharedConf, is bool) {
	conf, is := usedConf(files)
	if !is {
		return c, false
	}
	c.Network, _ = conf["name"].(string)
	for _, p := range pluginsOf(conf) {
		if ipam, _ := p["ipam"].(object); ipam["type"] == PluginName && ipam["sharedNetwork"] == true {
			c.Kind, _ = p["type"].(string)
			c.Conf = delegated(conf, p)
			return c, c.Network != ""
		}
	}
	return c, false
}

// usedConf returns the network configuration in use, if limpet-ipam gives its addresses.
func usedConf(files []ConfigFile) (conf object, is bool) {
	used := FindIPAM(files)
	i := slices.IndexFunc(files, func(f ConfigFile) bool { return f.Name == used.File })
	if used.By != IPAMLimpet || i < 0 {
		return nil, false
	}
	conf, err := decodeObject(files[i].Data)
	return conf, err == nil
}

// FollowShared decides which ranges a node has on a segment that nodes share. None may be in the pod CIDR of another node: the
// controller takes that for the home of an address.
func FollowShared(node string, nodes []corev1.Node, network string, sets []ipam.Set) (d OwnNetworkDecision, err error) {
	claims, _ := nodeClaims(nodes)
	for _, r := range slices.Concat(sets...) {
		for _, p := range r.Prefixes() {
			d.Owns = append(d.Owns, p)
			for _, c := range claims {
				if c.node != node && c.prefix.Overlaps(p) {
					err = errors.Join(err, fmt.Errorf("addresses do not follow: the range %s of this node has addresses of the pod CIDR of %s", r, c))
				}
			}
		}
	}
	d.Sets, d.Shared, d.Told = sets, network, true
	return d, err
}

// WithShared adds to networks that on one of them nodes share a segment, also before its first pod: the controller lets no other
// node borrow its addresses.
func WithShared(networks []Network, d OwnNetworkDecision) []Network {
	if d.Shared == "" {
		return networks
	}
	for i := range networks {
		if networks[i].Name == d.Shared {
			networks[i].Shared = true
			return networks
		}
	}
	return append(networks, Network{Name: d.Shared, Sets: d.Sets, Shared: true})
}
