package netconf

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/ipam"
)

// BelowBridge returns the gateway and the routes of a pod with an address of another node, given with the mask of its subnet,
// and the gateway that the pod can reach; false if the interface plugin is not bridge. That gives the bridge the gateway of the
// result: it must be the one that the bridge has, and the pod cannot reach it. So each route names the gateway that it can
// reach. Two routes lead there to the other addresses of the subnet, none of which is on the bridge.
func (c *Config) BelowBridge(address netip.Prefix, reached netip.Addr) (gateway netip.Addr, routes []*types.Route, is bool) {
	at := slices.IndexFunc(c.Sets, func(s ipam.Set) bool { return s[0].Start.Is4() })
	if !c.bridge || c.Segment != "" || at < 0 || !reached.Is4() || address.Bits() > 30 {
		return gateway, nil, false
	}
	via := func(to uint32, bits int) {
		dst := net.IPNet{IP: binary.BigEndian.AppendUint32(nil, to), Mask: net.CIDRMask(bits, 32)}
		routes = append(routes, &types.Route{Dst: dst, GW: reached.AsSlice()})
	}
	subnet := binary.BigEndian.Uint32(address.Masked().Addr().AsSlice())
	via(subnet, address.Bits()+1)
	via(subnet|1<<(31-address.Bits()), address.Bits()+1)
	if c.defaultGateway {
		via(0, 0)
	}
	for _, r := range c.Routes {
		if to := r.Copy(); r.GW == nil && r.Dst.IP.To4() != nil {
			to.GW = reached.AsSlice()
			routes = append(routes, to)
		} else {
			routes = append(routes, r)
		}
	}
	return c.Sets[at][0].Gateway, routes, true
}
