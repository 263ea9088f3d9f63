package cniplugin

import (
	"fmt"
	"net"
	"net/netip"

	current "github.com/containernetworking/cni/pkg/types/100"
)

// printResult answers in the version that was asked in.
func (p *Plugin) printResult(conf *config, addrs []netip.Addr) error {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: conf.routes, DNS: conf.dns}
	for n, a := range addrs {
		r, _ := conf.sets[n].Contains(a)
		result.IPs = append(result.IPs, &current.IPConfig{
			Address: net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(r.Subnet.Bits(), a.BitLen())},
			Gateway: r.Gateway.AsSlice(),
		})
	}
	versioned, err := result.GetAsVersion(conf.cniVersion)
	if err != nil {
		return fmt.Errorf("convert result to version %s: %w", conf.cniVersion, err)
	}
	return versioned.PrintTo(p.Stdout)
}
