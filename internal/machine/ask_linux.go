package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Ask asks three times, as far apart as askGap. RFC 5227 has seconds there, while a pod starts.
const (
	asks   = 3
	askGap = 200 * time.Millisecond
)

// advertisement is the type of a neighbour advertisement.
const advertisement = 136

// Multicast groups of IPv6: all nodes, and the beginning of those in which the nodes with an address are.
var allNodes, solicited = netip.MustParseAddr("ff02::1"), [13]byte{0xff, 0x02, 11: 1, 12: 0xff}

// Ask asks on an interface who has some addresses, by ARP probes (RFC 5227) and by neighbour solicitations. Those have a sender:
// duplicate address detection, which has none, makes a pod that has just begun give its own address up. It returns the link-layer
// addresses of those who answer.
func Ask(link string, addrs []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
	s, err := openSegment(link, addrs)
	defer s.close()
	found := map[netip.Addr]net.HardwareAddr{}
	for range asks {
		for _, a := range addrs {
			if err == nil && found[a] == nil {
				err = s.send(question(a, s.mac))
			}
		}
		for end := time.Now().Add(askGap); err == nil && len(found) < len(addrs) && time.Now().Before(end); { //nolint:forbidigo // it bounds a wait for machines
			s.receive(time.Until(end), addrs, found) //nolint:forbidigo // as above
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ask on %s who has %v: %w", link, addrs, err)
	}
	return found, nil
}

// Announce tells all machines on an interface which link-layer address has an address: by an ARP announcement, or by an
// unsolicited neighbour advertisement.
func Announce(link string, addr netip.Addr, mac net.HardwareAddr) error {
	s, err := openSegment(link, []netip.Addr{addr})
	defer s.close()
	if err == nil {
		err = s.send(announcement(addr, mac))
	}
	if err != nil {
		return fmt.Errorf("announce %s on %s: %w", addr, link, err)
	}
	return nil
}

// segment has a socket for each family of addresses, which sends to an interface and receives from it.
type segment struct {
	index   int
	mac     net.HardwareAddr
	sockets []unix.PollFd
	of      map[int]int // which socket, by the size of addresses
}

func openSegment(link string, addrs []netip.Addr) (s segment, err error) {
	dev, err := net.InterfaceByName(link)
	if err != nil {
		return s, err
	}
	s = segment{index: dev.Index, mac: dev.HardwareAddr, of: map[int]int{}}
	for _, a := range addrs {
		if _, open := s.of[a.BitLen()]; open {
			continue
		}
		protocol := protocolOf(a)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // hears nothing until it is bound
		if err != nil {
			return s, err
		}
		s.of[a.BitLen()] = len(s.sockets)
		s.sockets = append(s.sockets, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		if a.Is6() {
			err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(advertisements)), Filter: &advertisements[0]})
		}
		if err := errors.Join(err, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: dev.Index})); err != nil {
			return s, err
		}
	}
	return s, nil
}

// advertisements passes neighbour advertisements alone: other packets would fill the socket, and an answer would be lost.
var advertisements = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 6},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_ICMPV6, Jf: 3},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 40},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: advertisement, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1500},
	{Code: unix.BPF_RET | unix.BPF_K},
}

func (s segment) close() {
	for _, p := range s.sockets {
		_ = unix.Close(int(p.Fd)) // nothing is left to be read
	}
}

// packet is what is sent to the machines of a segment.
type packet struct {
	of   netip.Addr // which family
	to   [8]byte    // link-layer address
	data []byte
}

func (s segment) send(p packet) error {
	to := &unix.SockaddrLinklayer{Protocol: protocolOf(p.of), Ifindex: s.index, Halen: 6, Addr: p.to}
	return unix.Sendto(int(s.sockets[s.of[p.of.BitLen()]].Fd), p.data, 0, to)
}

// receive adds the answers that come within a time, or the first of them.
func (s segment) receive(within time.Duration, addrs []netip.Addr, found map[netip.Addr]net.HardwareAddr) {
	if n, _ := unix.Poll(s.sockets, int(within.Milliseconds())+1); n <= 0 { // a signal ends the call: the caller asks again
		return
	}
	var data [1500]byte
	for _, p := range s.sockets {
		for range 100 { // the time is up also under a flood
			n, from, err := unix.Recvfrom(int(p.Fd), data[:], 0)
			if err != nil {
				break // nothing is left
			}
			by, _ := from.(*unix.SockaddrLinklayer)
			if a, is := answered(data[:n]); is && by != nil && slices.Contains(addrs, a) {
				found[a] = slices.Clone(by.Addr[:6])
			}
		}
	}
}

// protocolOf returns the number of the protocol that asks for an address, in the order of the network.
func protocolOf(a netip.Addr) uint16 {
	n := uint16(unix.ETH_P_IPV6)
	if a.Is4() {
		n = unix.ETH_P_ARP
	}
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// question returns an ARP probe, or a neighbour solicitation from the link-local address that the interface has, or would have.
func question(a netip.Addr, own net.HardwareAddr) packet {
	if a.Is4() {
		return arpRequest(a, own, netip.IPv4Unspecified())
	}
	group := a.As16()
	copy(group[:], solicited[:])
	from := netip.AddrFrom16([16]byte{0xfe, 0x80, 8: own[0] ^ 2, 9: own[1], 10: own[2], 11: 0xff, 12: 0xfe, 13: own[3], 14: own[4], 15: own[5]})
	return packet{a, multicast(group), icmp6(from, netip.AddrFrom16(group), 135, 0, a, append([]byte{1, 1}, own...))}
}

func announcement(a netip.Addr, mac net.HardwareAddr) packet {
	if a.Is4() {
		return arpRequest(a, mac, a)
	}
	const override = 0x20
	return packet{a, multicast(allNodes.As16()), icmp6(a, allNodes, advertisement, override, a, append([]byte{2, 1}, mac...))}
}

func arpRequest(a netip.Addr, by net.HardwareAddr, sender netip.Addr) packet {
	data := slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, by, sender.AsSlice(), make([]byte, 6), a.AsSlice())
	return packet{a, [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, data}
}

func multicast(group [16]byte) [8]byte {
	return [8]byte{0x33, 0x33, group[12], group[13], group[14], group[15]}
}

// icmp6 returns a packet of neighbour discovery about a target.
func icmp6(from, to netip.Addr, kind, flags byte, target netip.Addr, option []byte) []byte {
	body := slices.Concat([]byte{kind, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice(), option)
	sum := uint32(len(body)) + unix.IPPROTO_ICMPV6
	for part := range slices.Chunk(slices.Concat(from.AsSlice(), to.AsSlice(), body), 2) {
		sum += uint32(part[0])<<8 | uint32(part[1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(body[2:], ^uint16(sum))
	return slices.Concat([]byte{0x60, 0, 0, 0, 0, byte(len(body)), unix.IPPROTO_ICMPV6, 255}, from.AsSlice(), to.AsSlice(), body)
}

// answered returns the address that the sender of a packet says it has: any ARP packet does, and a neighbour advertisement.
func answered(data []byte) (netip.Addr, bool) {
	switch {
	case len(data) >= 28 && data[0] == 0 && data[4] == 6 && data[5] == 4: // ARP
		return netip.AddrFrom4([4]byte(data[14:])), true
	case len(data) >= 64 && data[0]>>4 == 6 && data[6] == unix.IPPROTO_ICMPV6 && data[7] == 255 && data[40] == advertisement:
		return netip.AddrFrom16([16]byte(data[48:])), true
	}
	return netip.Addr{}, false
}
