package cni

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"golang.org/x/sys/unix"

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

// maxResolvConf is far more than such a file has.
const maxResolvConf = 1 << 20

// readResolvConf reads the DNS part of the result.
func readResolvConf(path string) (types.DNS, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if err != nil {
		return types.DNS{}, fmt.Errorf("ipam.resolvConf: %w: %w", err, netconf.ErrConfig)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxResolvConf))
	if err := errors.Join(err, f.Close()); err != nil {
		return types.DNS{}, fmt.Errorf("ipam.resolvConf: %w: %w", err, netconf.ErrConfig)
	}
	return netconf.ParseResolvConf(path, data)
}
