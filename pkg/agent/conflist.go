package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	pluginName   = "limpet-ipam"
	networkName  = "limpet"
	conflistName = "10-limpet.conflist"
	// annotationsCapability makes a runtime tell the plugin a pod's annotations.
	annotationsCapability = "io.kubernetes.cri.pod-annotations"
)

type object = map[string]any

// conflist returns the network configuration of own mode: ptp, which routes each
// address by itself, with one range set for each of the node's pod CIDRs, and
// portmap for host ports. There is no masquerading: pods see each other's addresses.
// The plugin is told what the agent was, where that is not what it assumes anyway.
func conflist(podCIDRs []string, c Config) ([]byte, error) {
	var ranges [][]object
	var routes []object
	for _, text := range podCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("pod CIDR of the node: %w", err)
		}
		ranges = append(ranges, []object{{"subnet": cidr.Masked().String()}})
		everywhere := "0.0.0.0/0"
		if cidr.Addr().Is6() {
			everywhere = "::/0"
		}
		routes = append(routes, object{"dst": everywhere})
	}
	ipam := object{"type": pluginName, "ranges": ranges, "routes": routes}
	if c.StateDir != persistence.DefaultDir {
		ipam["dataDir"] = c.StateDir
	}
	if c.MaxRetain != reservation.DefaultMaxRetain {
		ipam["maxReservation"] = c.MaxRetain.String()
	}
	if c.SharePercent != reservation.DefaultSharePercent {
		ipam["maxReservedPercent"] = c.SharePercent
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

// foreignConfig returns the name of a network configuration of somebody else's that
// the runtime would load in place of ours: the first name in the directory counts.
func foreignConfig(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for network configurations: %w", err)
	}
	i := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		suffix := filepath.Ext(e.Name())
		return slices.Contains(configSuffixes, suffix) && strings.Compare(e.Name(), conflistName) < 0
	})
	if i < 0 {
		return "", nil
	}
	return entries[i].Name(), nil
}
