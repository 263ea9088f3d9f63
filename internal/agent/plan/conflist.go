package plan

import (
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// PluginName is the type of the IPAM plugin, and the name of its binary.
	PluginName = "limpet-ipam"
	// ConflistName is the file name of the network configuration of own mode.
	ConflistName = "10-limpet.conflist"

	// annotationsCapability makes a runtime pass a pod's annotations to the plugin.
	annotationsCapability = "io.kubernetes.cri.pod-annotations"
)

type object = map[string]any

// PluginOptions are the keys of the IPAM configuration that follow the agent's flags.
type PluginOptions struct {
	// DataDir is the directory of the state file; empty for the plugin's default. StateDir is never empty.
	DataDir      string
	StateDir     string
	MaxRetain    time.Duration
	SharePercent int
}

// limit adds the limits for reservations to an ipam section, except those that it has.
func (o PluginOptions) limit(ipam object) {
	if ipam["maxReservation"] == nil && o.MaxRetain != reservation.DefaultMaxRetain {
		ipam["maxReservation"] = o.MaxRetain.String()
	}
	if ipam["maxReservedPercent"] == nil && o.SharePercent != reservation.DefaultSharePercent {
		ipam["maxReservedPercent"] = o.SharePercent
	}
}

// conflist returns the network configuration of own mode. It chains ptp, which routes each
// address by itself, with the range sets of the node, and portmap for host ports. Nothing is
// masqueraded: pods see each other's addresses. Options that have the plugin's default value
// are left out. Behind them are the plugins of others.
func conflist(node string, sets [][]netip.Prefix, mtu int32, o PluginOptions, others []object) object {
	var ranges [][]object
	var routes []object
	for _, set := range sets {
		var alternatives []object
		for _, p := range set {
			alternatives = append(alternatives, object{"subnet": p.String()})
		}
		ranges = append(ranges, alternatives)
		defaultRoute := "0.0.0.0/0"
		if set[0].Addr().Is6() {
			defaultRoute = "::/0"
		}
		routes = append(routes, object{"dst": defaultRoute})
	}
	ipam := object{"type": PluginName, "ranges": ranges, "routes": routes, "node": node}
	if o.DataDir != "" {
		ipam["dataDir"] = o.DataDir
	}
	o.limit(ipam)
	ptp := object{"type": "ptp", "ipMasq": false, "capabilities": object{annotationsCapability: true}, "ipam": ipam}
	if mtu != 0 {
		ptp["mtu"] = mtu
	}
	return object{
		"cniVersion": "1.1.0",
		"name":       NetworkName,
		"plugins":    append([]object{ptp, {"type": "portmap", "capabilities": object{"portMappings": true}, "snat": true}}, others...),
	}
}

// chained returns the plugins that others have added to a network configuration, as service meshes do. A plugin that
// gives addresses is another network.
func chained(data []byte) []object {
	conf, err := decodeObject(data)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pluginsOf(conf), func(p object) bool {
		name, _ := p["type"].(string)
		ipam, _ := p["ipam"].(object) // Istio writes an empty one
		return ipam["type"] != nil && ipam["type"] != "" || slices.Contains([]string{"", "ptp", "portmap"}, name)
	})
}

// same reports whether two network configurations have the same content.
func same(a, b []byte) bool {
	x, errX := decodeObject(a)
	y, errY := decodeObject(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
