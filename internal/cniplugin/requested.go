package cniplugin

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/pkg/ipam"
)

// errRequested is returned when an address asked for by number cannot be had.
var errRequested = errors.New("requested address")

// requestedIPs collects the addresses asked for by number in the configuration.
func requestedIPs(conf *netConf) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, from := range []struct {
		key string
		ips []string
	}{{"args.cni.ips", conf.Args.CNI.IPs}, {"runtimeConfig.ips", conf.RuntimeConfig.IPs}} {
		for _, s := range from.ips {
			a, err := parseRequested(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: %w", from.key, err, errConfig)
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// parseRequested reads an address that may have a prefix length, which means
// nothing: the range has one.
func parseRequested(s string) (netip.Addr, error) {
	s, _, _ = strings.Cut(s, "/")
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, fmt.Errorf("%q is not an IP address", s)
	}
	return a.Unmap(), nil
}

// assign gives each set the first requested address that it contains. The result
// has one address of each set, not valid where none was asked for.
func assign(sets []ipam.Set, requested []netip.Addr) ([]netip.Addr, error) {
	wanted := make([]netip.Addr, len(sets))
	left := slices.Clone(requested)
	for n, set := range sets {
		i := slices.IndexFunc(left, func(a netip.Addr) bool { _, in := set.Contains(a); return in })
		if i < 0 {
			continue
		}
		if r, _ := set.Contains(left[i]); r.Gateway == left[i] {
			return nil, fmt.Errorf("failed to allocate for range %d: %w: requested ip %s is subnet's gateway", n, errRequested, left[i])
		}
		wanted[n] = left[i]
		left = slices.DeleteFunc(left, func(a netip.Addr) bool { return a == wanted[n] })
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("failed to allocate all requested IPs: %w", leftOverError(left))
	}
	return wanted, nil
}

// fits says why addresses that an owner had cannot be handed out again: the ranges
// have changed, or others are asked for by number.
func (c *config) fits(addrs []netip.Addr) error {
	if err := ipam.Fit(c.sets, addrs); err != nil {
		return err
	}
	for n, want := range c.wanted {
		if want.IsValid() && want != addrs[n] {
			return fmt.Errorf("%s is asked for instead of %s", want, addrs[n])
		}
	}
	return nil
}

// leftOverError are requested addresses that are in no range set.
type leftOverError []netip.Addr

// Error lists the addresses.
func (l leftOverError) Error() string {
	names := make([]string, len(l))
	for i, a := range l {
		names[i] = a.String()
	}
	return strings.Join(names, " ")
}

// Is makes the left-over ones requested addresses that cannot be had.
func (l leftOverError) Is(target error) bool { return target == errRequested }
