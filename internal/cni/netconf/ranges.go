package netconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// errNoRanges is returned for a configuration without ranges.
var errNoRanges = errors.New("ipam.ranges: no IP ranges specified")

// MayHold reports whether an address may be of the network. Without ranges, as in a DEL, every
// address may be.
func (c *Config) MayHold(addr netip.Addr) bool {
	return len(c.Sets) == 0 || slices.ContainsFunc(c.Sets, func(s ipam.Set) bool {
		_, contains := s.Contains(addr)
		return contains
	})
}

// Limits returns what the network allows pods that ask for reservations.
func (c *Config) Limits() reservation.Limits {
	pool := ipam.Pods(c.Sets)
	return reservation.Limits{
		Share:     reservation.NewShare(pool, c.SharePercent, c.Refuse).WithQuota(pool, c.Quota),
		MaxRetain: c.MaxReservation, ReleaseDelay: c.ReleaseDelay,
	}
}

// SetOf returns the number of the range set that contains an address, or the number of
// sets when none does.
func (c *Config) SetOf(a netip.Addr) int {
	for n, s := range c.Sets {
		if _, in := s.Contains(a); in {
			return n
		}
	}
	return len(c.Sets)
}

// keyedSet is a range set and its key in the configuration.
type keyedSet struct {
	key    string
	ranges []rangeKeys
}

// keyOf returns the key of a range as the user wrote it.
func (s keyedSet) keyOf(n int) string {
	if s.key == "ipam" { // the one range of old configurations
		return s.key
	}
	return fmt.Sprintf("%s[%d]", s.key, n)
}

// keyedSets lists the range sets in host-local's order: those of the runtime, the one range of
// old configurations, and the others.
func keyedSets(f *file) []keyedSet {
	var all []keyedSet
	for n, ranges := range f.RuntimeConfig.IPRanges {
		all = append(all, keyedSet{fmt.Sprintf("runtimeConfig.ipRanges[%d]", n), ranges})
	}
	if f.IPAM.Subnet != "" {
		all = append(all, keyedSet{"ipam", []rangeKeys{f.IPAM.rangeKeys}})
	}
	for n, ranges := range f.IPAM.Ranges {
		all = append(all, keyedSet{fmt.Sprintf("ipam.ranges[%d]", n), ranges})
	}
	return all
}

// checkOldRange checks the keys of the one range of old configurations where the subnet is
// missing. Like host-local, it refuses an empty subnet and other keys that are no addresses.
func checkOldRange(f *file, stdin []byte) error {
	if f.IPAM.Subnet != "" {
		return nil
	}
	var given struct {
		IPAM struct {
			Subnet json.RawMessage `json:"subnet"`
		} `json:"ipam"`
	}
	if bytes.Contains(stdin, []byte(`""`)) || bytes.Contains(stdin, []byte("null")) { // no empty subnet is written otherwise
		_ = json.Unmarshal(stdin, &given) // stdin was decoded before
	}
	if given.IPAM.Subnet != nil {
		return errors.New("subnet: invalid CIDR address: ")
	}
	_, err := f.IPAM.parseAddresses()
	return err
}

// rangeSetsOfAdd is rangeSets with the checks that only ADD makes.
func rangeSetsOfAdd(f *file, stdin []byte) ([]ipam.Set, error) {
	if err := checkOldRange(f, stdin); err != nil {
		return nil, fmt.Errorf("ipam.%w", err)
	}
	sets, err := rangeSets(f)
	for n := range sets {
		if ipam.Pods(sets[n:n+1]) == 0 {
			return nil, fmt.Errorf("%s: the gateway is its only address", keyedSets(f)[n].key)
		}
	}
	return sets, err
}

func rangeSets(f *file) ([]ipam.Set, error) {
	all := keyedSets(f)
	if len(all) == 0 {
		return nil, errNoRanges
	}
	sets := make([]ipam.Set, len(all))
	for n, s := range all {
		for m, r := range s.ranges {
			parsed, err := r.parse()
			if err != nil {
				return nil, fmt.Errorf("%s.%w", s.keyOf(m), err)
			}
			sets[n] = append(sets[n], parsed)
		}
	}
	sets, err := ipam.CompleteSets(sets)
	if set, ok := errors.AsType[*ipam.SetError](err); ok {
		key := all[set.Index].key
		if r, ok := errors.AsType[*ipam.RangeError](err); ok {
			key = all[set.Index].keyOf(r.Index) + "." + r.Key
		}
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if n, err := onePerFamily(f.CNIVersion, sets); err != nil {
		return nil, fmt.Errorf("%s: %w", all[n].key, err)
	}
	if len(sets) == 1 {
		return sets, nil
	}
	if overlap, ok := errors.AsType[*ipam.OverlapError](ipam.Disjoint(sets)); ok {
		return nil, fmt.Errorf("%s and %s: %w", all[overlap.With].key, all[overlap.Index].key, overlap)
	}
	return sets, nil
}

func (r rangeKeys) parse() (ipam.Range, error) {
	if r.Subnet == "" {
		return ipam.Range{}, errors.New("subnet: missing")
	}
	ip, subnet, err := net.ParseCIDR(r.Subnet) // accepts the same as host-local, with the same errors
	if err != nil {
		return ipam.Range{}, fmt.Errorf("subnet: %w", err)
	}
	parsed, err := r.parseAddresses()
	bits, of := subnet.Mask.Size()
	network, _ := netip.AddrFromSlice(ip)
	if network = network.Unmap(); network.BitLen() != of {
		bits = -1 // an IPv4 address in IPv6 notation, which Complete refuses
	}
	parsed.Subnet = netip.PrefixFrom(network, bits)
	return parsed, err
}

// parseAddresses reads the keys other than the subnet.
func (r rangeKeys) parseAddresses() (ipam.Range, error) {
	var parsed ipam.Range
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

// onePerFamily fails for a second address of a family under specifications before 0.3.0,
// whose results have room for one. It returns the number of the set that is too many.
func onePerFamily(cniVersion string, sets []ipam.Set) (tooMany int, err error) {
	if many, err := version.GreaterThanOrEqualTo(cniVersion, "0.3.0"); many || err != nil {
		return 0, err
	}
	count := map[int]int{}
	for n, s := range sets {
		family := s[0].Start.BitLen()
		if count[family]++; count[family] > 1 {
			return n, fmt.Errorf("CNI version %s does not support more than 1 address per family", cniVersion)
		}
	}
	return 0, nil
}
