package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// ForgetNeighbours deletes the entries of the given addresses from the neighbour table of
// this network namespace. A pod that gets an address has a new link-layer address, and its
// announcement is lost while its bridge port is not up: the node would send to the old
// link-layer address for up to a minute.
func ForgetNeighbours(addrs []netip.Addr) error {
	n, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	defer n.close()
	var found []neighbour
	err = n.ask(unix.RTM_GETNEIGH, unix.NLM_F_DUMP, make([]byte, unix.SizeofNdMsg), func(m []byte) {
		if e, ok := parseNeighbour(m); ok && slices.Contains(addrs, e.addr) {
			found = append(found, e)
		}
	})
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	var failed error
	for _, e := range found {
		err := n.ask(unix.RTM_DELNEIGH, unix.NLM_F_ACK, appendAttr(e.head[:], unix.NDA_DST, e.addr.AsSlice()), func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENOENT) { // it may be gone already
			failed = errors.Join(failed, fmt.Errorf("forget neighbour %s: %w", e.addr, err))
		}
	}
	return failed
}

// neighbour is an entry of the neighbour table. Its head is a struct ndmsg: family, three
// bytes of padding, interface index, state, flags and type.
type neighbour struct {
	head [unix.SizeofNdMsg]byte
	addr netip.Addr
}

// parseNeighbour reports false for messages without an entry, and for permanent entries,
// which an administrator has set.
func parseNeighbour(m []byte) (neighbour, bool) {
	var n neighbour
	if copy(n.head[:], m) < len(n.head) {
		return n, false
	}
	if state := binary.NativeEndian.Uint16(n.head[8:]); state&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0 {
		return n, false
	}
	var ok bool
	n.addr, ok = netip.AddrFromSlice(attr(m[len(n.head):], unix.NDA_DST))
	return n, ok
}
