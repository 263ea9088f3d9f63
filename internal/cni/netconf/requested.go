package netconf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/pkg/ipam"
)

// ErrRequested matches every RequestedError.
var ErrRequested = errors.New("requested address")

// RequestedError says in host-local's words why a requested address cannot be had.
type RequestedError string

// Error returns the words.
func (e RequestedError) Error() string { return string(e) }

// Is makes ErrRequested match.
func (e RequestedError) Is(target error) bool { return target == ErrRequested }

// requestedIPs reads the addresses that the configuration asks for by number.
func requestedIPs(f *file) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, key := range []struct {
		name string
		ips  []string
	}{{"args.cni.ips", f.Args.CNI.IPs}, {"runtimeConfig.ips", f.RuntimeConfig.IPs}} {
		for _, s := range key.ips {
			a, err := parseRequested(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: %w", key.name, err, ErrConfig)
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// parseRequested reads an address and ignores a prefix length: the range has one.
func parseRequested(s string) (netip.Addr, error) {
	var a netip.Addr
	if strings.Contains(s, "/") {
		ip, _, _ := net.ParseCIDR(s) // nil for invalid text
		a, _ = netip.AddrFromSlice(ip)
	} else {
		a, _ = netip.ParseAddr(s)
	}
	if !a.IsValid() || a.Zone() != "" {
		return a, fmt.Errorf("invalid IP address %s", s)
	}
	return a.Unmap(), nil
}

// Assign gives each range set the first requested address that it contains; the address in
// CNI_ARGS comes first. The result has one address for each set, not valid where none was asked
// for.
func (c *Config) Assign(pod Pod) ([]netip.Addr, error) {
	var left []netip.Addr
	if pod.IP.IsValid() {
		left = append(left, pod.IP)
	}
	left = append(left, c.Requested...)
	if len(left) == 0 {
		return make([]netip.Addr, len(c.Sets)), nil
	}
	return c.assign(left)
}

func (c *Config) assign(left []netip.Addr) ([]netip.Addr, error) {
	wanted := make([]netip.Addr, len(c.Sets))
	for n, set := range c.Sets {
		i := slices.IndexFunc(left, func(a netip.Addr) bool { _, in := set.Contains(a); return in })
		if i < 0 {
			continue
		}
		if r, _ := set.Contains(left[i]); r.Gateway == left[i] {
			return nil, RequestedError(fmt.Sprintf("failed to allocate for range %d: requested ip %s is subnet's gateway", n, left[i]))
		}
		wanted[n] = left[i]
		left = slices.DeleteFunc(left, func(a netip.Addr) bool { return a == wanted[n] })
	}
	if len(left) > 0 {
		return nil, RequestedError("failed to allocate all requested IPs: " + strings.Trim(fmt.Sprint(left), "[]"))
	}
	return wanted, nil
}

// Fits says why addresses that an owner had cannot be handed out again: the ranges have
// changed, or other addresses are asked for by number.
func (c *Config) Fits(wanted, addrs []netip.Addr) error {
	if err := ipam.Fit(c.Sets, addrs); err != nil {
		return err
	}
	for n, want := range wanted {
		if want.IsValid() && want != addrs[n] {
			return fmt.Errorf("%s is asked for instead of %s", want, addrs[n])
		}
	}
	return nil
}
