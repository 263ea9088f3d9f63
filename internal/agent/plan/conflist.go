package plan

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// PluginName is the type of the IPAM plugin, and the name of its binary.
	PluginName = "limpet-ipam"
	// ConflistName is the file name of the network configuration of own mode.
	ConflistName = "10-limpet.conflist"

	networkName = "limpet"
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

// conflist returns the network configuration of own mode. It chains ptp, which routes each
// address by itself, with one range set per pod CIDR of the node, and portmap for host
// ports. Nothing is masqueraded: pods see each other's addresses. Options that have the
// plugin's default value are left out.
func conflist(podCIDRs []string, o PluginOptions) ([]byte, error) {
	var ranges [][]object
	var routes []object
	for _, text := range podCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("pod CIDR of the node: %w", err)
		}
		ranges = append(ranges, []object{{"subnet": cidr.Masked().String()}})
		defaultRoute := "0.0.0.0/0"
		if cidr.Addr().Is6() {
			defaultRoute = "::/0"
		}
		routes = append(routes, object{"dst": defaultRoute})
	}
	ipam := object{"type": PluginName, "ranges": ranges, "routes": routes}
	if o.DataDir != "" {
		ipam["dataDir"] = o.DataDir
	}
	if o.MaxRetain != reservation.DefaultMaxRetain {
		ipam["maxReservation"] = o.MaxRetain.String()
	}
	if o.SharePercent != reservation.DefaultSharePercent {
		ipam["maxReservedPercent"] = o.SharePercent
	}
	return json.MarshalIndent(object{
		"cniVersion": "1.1.0",
		"name":       networkName,
		"plugins": []object{
			{
				"type": "ptp", "ipMasq": false, "capabilities": object{annotationsCapability: true},
				"ipam": ipam,
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}, "snat": true},
		},
	}, "", "  ")
}
