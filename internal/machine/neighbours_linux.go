package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// ForgetNeighbours deletes the entries of the given addresses from the neighbour table of
// this network namespace. A returning pod has a new link-layer address, and its announcement
// is lost while its bridge port is not up: the node would send to the old link-layer
// address for up to a minute.
func ForgetNeighbours(addrs []netip.Addr) error {
	table, err := syscall.NetlinkRIB(unix.RTM_GETNEIGH, unix.AF_UNSPEC)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	entries, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	var failed error
	for _, e := range entries {
		if n, ok := parseNeighbour(e); ok && slices.Contains(addrs, n.addr) {
			failed = errors.Join(failed, n.forget())
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
func parseNeighbour(m syscall.NetlinkMessage) (neighbour, bool) {
	var n neighbour
	if m.Header.Type != unix.RTM_NEWNEIGH || copy(n.head[:], m.Data) < len(n.head) {
		return n, false
	}
	if state := binary.NativeEndian.Uint16(n.head[8:]); state&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0 {
		return n, false
	}
	for rest := m.Data[len(n.head):]; len(rest) >= unix.SizeofRtAttr; {
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofRtAttr || size > len(rest) {
			break
		}
		if kind == unix.NDA_DST {
			n.addr, _ = netip.AddrFromSlice(rest[unix.SizeofRtAttr:size])
		}
		rest = rest[min(len(rest), (size+3)&^3):] // attributes begin at multiples of four
	}
	return n, n.addr.IsValid()
}

// forget deletes the entry. An entry that is gone already is no error.
func (n neighbour) forget() error {
	addr := n.addr.AsSlice()
	attr := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(addr)))
	attr = append(binary.NativeEndian.AppendUint16(attr, unix.NDA_DST), addr...)
	size := unix.SizeofNlMsghdr + len(n.head) + len(attr)
	request := binary.NativeEndian.AppendUint32(nil, uint32(size))
	request = binary.NativeEndian.AppendUint16(request, unix.RTM_DELNEIGH)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	request = append(request, make([]byte, 8)...) // sequence number and sender: unused by a single request
	request = append(append(request, n.head[:]...), attr...)
	if err := ask(request); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget neighbour %s: %w", n.addr, err)
	}
	return nil
}

// ask sends a request to the kernel's routing socket and reads the acknowledgement.
func ask(request []byte) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	if err := unix.Sendto(s, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var answer [4096]byte
	n, _, err := unix.Recvfrom(s, answer[:], 0)
	if err == nil && n < unix.SizeofNlMsghdr+4 {
		err = unix.EBADMSG
	}
	if err != nil {
		return err
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
