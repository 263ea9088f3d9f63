package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// countPath is a file with the number of connections that the kernel tracks in this network namespace. There is no such
// file where it tracks none.
const countPath = "/proc/sys/net/netfilter/nf_conntrack_count"

// Messages and attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	getConnection    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	deleteConnection = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2
	sizeofNfgen      = 4 // struct nfgenmsg: family, version, resource

	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaID         = 12
	ctaZone       = 18
	ctaFilter     = 25

	ctaTupleIP = 1 // in a tuple
	ctaIPv4Src = 1 // in the addresses of a tuple
	ctaIPv6Src = 3

	ctaFilterOrigFlags  = 1 // in a filter
	ctaFilterReplyFlags = 2
	filterSource        = 1 // a flag of a filter: compare the source address
)

// ForgetOwner deletes what this network namespace remembers of the owner of the given addresses: neighbours and tracked
// connections.
func ForgetOwner(addrs []netip.Addr) error {
	return errors.Join(ForgetNeighbours(addrs), ForgetConnections(addrs))
}

// ForgetConnections deletes the tracked connections from and to the given addresses in this network namespace. A new
// owner of an address would else get packets of connections of the earlier one. The cost is a walk through the table for
// each request.
func ForgetConnections(addrs []netip.Addr) error {
	if tracked, err := os.ReadFile(countPath); err != nil || string(bytes.TrimSpace(tracked)) == "0" {
		return nil
	}
	n, err := dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	defer n.close()
	var found [][]byte
	for _, a := range addrs {
		for _, request := range requestsFor(a) {
			err = errors.Join(err, n.ask(getConnection, unix.NLM_F_DUMP, request, func(m []byte) {
				if c := deletionOf(m, addrs); c != nil {
					found = append(found, c)
				}
			}))
		}
	}
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, c := range found {
		err := n.ask(deleteConnection, unix.NLM_F_ACK, c, func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENOENT) { // it may have ended
			return fmt.Errorf("forget connection: %w", err)
		}
	}
	return nil
}

// requestsFor returns requests for the connections that an address began or answered. For IPv4 the kernel chooses them,
// which is cheaper than to compare them here; kernels before 5.8 send all. For IPv6 the kernel (6.18 and before) would
// leave out exactly the address that it is asked for, so the request is for all.
func requestsFor(a netip.Addr) [][]byte {
	head := []byte{family(a), unix.NFNETLINK_V0, 0, 0}
	if a.Is6() {
		return [][]byte{head}
	}
	ip := appendAttr(nil, ctaTupleIP|unix.NLA_F_NESTED, appendAttr(nil, ctaIPv4Src, a.AsSlice()))
	source := binary.NativeEndian.AppendUint32(nil, filterSource)
	var requests [][]byte
	for tuple, flags := range map[uint16]uint16{ctaTupleOrig: ctaFilterOrigFlags, ctaTupleReply: ctaFilterReplyFlags} {
		r := appendAttr(slices.Clone(head), tuple|unix.NLA_F_NESTED, ip)
		requests = append(requests, appendAttr(r, ctaFilter|unix.NLA_F_NESTED, appendAttr(nil, flags, source)))
	}
	return requests
}

// deletionOf returns the request that deletes a connection; nil when none of the addresses began or answered it. A
// request without a tuple would delete all connections.
func deletionOf(m []byte, addrs []netip.Addr) []byte {
	if len(m) < sizeofNfgen {
		return nil
	}
	attrs := m[sizeofNfgen:]
	orig := attr(attrs, ctaTupleOrig)
	if len(orig) == 0 || !slices.Contains(addrs, source(orig)) && !slices.Contains(addrs, source(attr(attrs, ctaTupleReply))) {
		return nil
	}
	request := appendAttr(slices.Clone(m[:sizeofNfgen]), ctaTupleOrig|unix.NLA_F_NESTED, orig)
	for _, kind := range []uint16{ctaZone, ctaID} {
		if v := attr(attrs, kind); v != nil {
			request = appendAttr(request, kind, v)
		}
	}
	return request
}

// source returns the source address of a tuple.
func source(tuple []byte) netip.Addr {
	ip := attr(tuple, ctaTupleIP)
	a, found := netip.AddrFromSlice(attr(ip, ctaIPv4Src))
	if !found {
		a, _ = netip.AddrFromSlice(attr(ip, ctaIPv6Src))
	}
	return a
}
