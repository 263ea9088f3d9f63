package netconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// defaultBridge is the bridge unless the configuration names another one.
const defaultBridge = "cni0"

// readSegment reads on which interface the other nodes are that share one L2 segment. There a pod that came from another
// node keeps the mask and the gateway that its address had: all ranges are parts of one subnet.
func (c *Config) readSegment(f *file) error {
	switch {
	case f.Type == "bridge" && f.VLAN == nil:
		c.Segment = cmp.Or(f.Bridge, defaultBridge)
	case f.Type == "macvlan" && f.Master != "":
		c.Segment = f.Master
	default:
		return fmt.Errorf("ipam.sharedNetwork: the interface plugin must be bridge without vlan, or macvlan with master: %w", ErrConfig)
	}
	subnets := map[int]netip.Prefix{}
	for _, r := range slices.Concat(c.Sets...) {
		size := r.Start.BitLen()
		if of, known := subnets[size]; known && of != r.Subnet {
			return fmt.Errorf("ipam.sharedNetwork: %s and %s are two subnets: a part of one is needed, with rangeStart and rangeEnd: %w", of, r.Subnet, ErrConfig)
		}
		subnets[size] = r.Subnet
	}
	return nil
}
