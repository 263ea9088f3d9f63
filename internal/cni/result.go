package cni

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/limpet-io/limpet/internal/cni/netconf"
)

// printResult writes the result in the version of the configuration.
func (p *Plugin) printResult(conf *netconf.Config, dns types.DNS, addrs []netip.Addr) error {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: conf.Routes, DNS: dns}
	for n, a := range addrs {
		r, _ := conf.Sets[n].Contains(a)
		result.IPs = append(result.IPs, &current.IPConfig{
			Address: net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(r.Subnet.Bits(), a.BitLen())},
			Gateway: r.Gateway.AsSlice(),
		})
	}
	versioned, err := result.GetAsVersion(conf.CNIVersion)
	if err != nil {
		return fmt.Errorf("convert result to version %s: %w", conf.CNIVersion, err)
	}
	return versioned.PrintTo(p.Stdout)
}

// readResolvConf reads the DNS part of the result.
func readResolvConf(path string) (types.DNS, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return types.DNS{}, fmt.Errorf("ipam.resolvConf: %w: %w", err, netconf.ErrConfig)
	}
	return netconf.ParseResolvConf(path, data)
}
