package cniplugin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/limpet-io/limpet/pkg/ipam"
)

// rangeSets puts the one range of old configurations in front of the others, and
// the ranges that the runtime brings in front of all, as host-local does.
func rangeSets(conf *netConf) ([]ipam.Set, error) {
	var all [][]rangeConf
	all = append(all, conf.RuntimeConfig.IPRanges...)
	if conf.IPAM.Subnet != "" {
		all = append(all, []rangeConf{conf.IPAM.rangeConf})
	}
	all = append(all, conf.IPAM.Ranges...)
	if len(all) == 0 {
		return nil, errors.New("no IP ranges specified")
	}
	sets := make([]ipam.Set, 0, len(all))
	for n, ranges := range all {
		set := make(ipam.Set, 0, len(ranges))
		for m, r := range ranges {
			parsed, err := r.parse()
			if err != nil {
				return nil, fmt.Errorf("[%d][%d].%w", n, m, err)
			}
			set = append(set, parsed)
		}
		sets = append(sets, set)
	}
	sets, err := ipam.CompleteSets(sets)
	if err != nil {
		return nil, err
	}
	if err := onePerFamily(conf.CNIVersion, sets); err != nil {
		return nil, err
	}
	return sets, ipam.Disjoint(sets)
}

func (r rangeConf) parse() (ipam.Range, error) {
	var parsed ipam.Range
	if r.Subnet == "" {
		return parsed, errors.New("subnet: missing")
	}
	ip, subnet, err := net.ParseCIDR(r.Subnet) // it allows what host-local allows, and complains in its words
	if err != nil {
		return parsed, fmt.Errorf("subnet: %w", err)
	}
	bits, of := subnet.Mask.Size()
	network, _ := netip.AddrFromSlice(ip)
	if network = network.Unmap(); network.BitLen() != of {
		bits = -1 // an IPv4 address in IPv6 notation, which Complete refuses
	}
	parsed.Subnet = netip.PrefixFrom(network, bits)
	for _, a := range []struct {
		key, value string
		to         *netip.Addr
	}{{"rangeStart", r.RangeStart, &parsed.Start}, {"rangeEnd", r.RangeEnd, &parsed.End}, {"gateway", r.Gateway, &parsed.Gateway}} {
		if a.value == "" {
			continue
		}
		addr, err := netip.ParseAddr(a.value)
		if err != nil || addr.Zone() != "" {
			return parsed, fmt.Errorf("%s: invalid IP address: %s", a.key, a.value)
		}
		*a.to = addr.Unmap()
	}
	return parsed, nil
}

// onePerFamily holds specifications before 0.3.0 to the one address of each family
// that their results have room for.
func onePerFamily(cniVersion string, sets []ipam.Set) error {
	if many, err := version.GreaterThanOrEqualTo(cniVersion, "0.3.0"); many || err != nil {
		return err
	}
	count := map[int]int{}
	for _, s := range sets {
		family := s[0].Start.BitLen()
		if count[family]++; count[family] > 1 {
			return fmt.Errorf("CNI version %s does not support more than 1 address per family", cniVersion)
		}
	}
	return nil
}
