package machine

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/ipam"
)

// UseOf asks the kernel of this network namespace whether it uses an address: with a route to the address alone, or with
// a neighbour that has answered for it lately. An answer that is an error means no route, a route that refuses packets,
// no neighbour, or a kernel before 5.0, which does not answer the question for one neighbour.
func UseOf(addr netip.Addr) (ipam.Use, error) {
	n, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return ipam.Unused, fmt.Errorf("ask the kernel for %s: %w", addr, err)
	}
	defer n.close()
	alone, link := n.route(addr)
	switch {
	case alone:
		return ipam.Routed, nil
	case link != nil && n.reached(addr, link):
		return ipam.Reached, nil
	}
	return ipam.Unused, nil
}

// route asks for the entry of the routing tables that an address matches. It reports whether that is for the address
// alone, and the index of the interface on whose link the address is; nil for none.
func (n netlink) route(addr netip.Addr) (alone bool, link []byte) {
	body := make([]byte, unix.SizeofRtMsg) // struct rtmsg: family, length of the destination, …, type, flags
	body[0], body[1] = family(addr), byte(addr.BitLen())
	binary.NativeEndian.PutUint32(body[8:], unix.RTM_F_FIB_MATCH)
	_ = n.ask(unix.RTM_GETROUTE, 0, appendAttr(body, unix.RTA_DST, addr.AsSlice()), func(m []byte) {
		if len(m) < unix.SizeofRtMsg {
			return
		}
		kind, attrs := m[7], m[unix.SizeofRtMsg:]
		alone = int(m[1]) == addr.BitLen() && (kind == unix.RTN_UNICAST || kind == unix.RTN_LOCAL)
		if kind == unix.RTN_UNICAST && attr(attrs, unix.RTA_GATEWAY) == nil && attr(attrs, unix.RTA_VIA) == nil {
			link = slices.Clone(attr(attrs, unix.RTA_OIF))
		}
	})
	return alone, link
}

// reached reports whether a neighbour on a link has confirmed lately that it has an address.
func (n netlink) reached(addr netip.Addr, link []byte) (reached bool) {
	body := make([]byte, unix.SizeofNdMsg) // struct ndmsg: family, padding, interface, state, flags, type
	body[0] = family(addr)
	copy(body[4:8], link)
	_ = n.ask(unix.RTM_GETNEIGH, 0, appendAttr(body, unix.NDA_DST, addr.AsSlice()), func(m []byte) {
		reached = len(m) >= unix.SizeofNdMsg && binary.NativeEndian.Uint16(m[8:])&(unix.NUD_REACHABLE|unix.NUD_PERMANENT) != 0
	})
	return reached
}
