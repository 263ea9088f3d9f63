package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// guestTable is the agent's table of nftables on a node that has guests.
	guestTable = "limpet-guests"
	// asksMasquerade are the marks with which kube-proxy and portmap ask for it.
	asksMasquerade = 0x6000
	// beforeSNAT is a priority of a chain that comes before those of flannel and of kube-proxy.
	beforeSNAT = 90
	// mostRules bounds a batch, in bytes: enough for a thousand guests.
	mostRules = 4 << 20
)

// applyGuestRules replaces the rules for guests of this node. Flannel on iptables masquerades packets from and to all pods but
// those of its own subnet: here each keeps its source, which ends the search of the kernel for another one. No pod is told to
// send packets for a guest to the bridge: it would do so for minutes, also when the guest is gone.
func applyGuestRules(s *nl.NetlinkSocket, guests []netip.Addr, network netip.Prefix) error {
	table := nftText(unix.NFTA_TABLE_NAME, guestTable)
	b := nftBatch{{unix.NFT_MSG_NEWTABLE, table}, {unix.NFT_MSG_DELTABLE, table}} // whether or not there is one
	if len(guests) > 0 {
		b = append(b, nftMessage{unix.NFT_MSG_NEWTABLE, table})
		b.chain("sources", "nat", unix.NF_INET_POST_ROUTING, beforeSNAT)
		b.chain("redirects", "filter", unix.NF_INET_LOCAL_OUT, 0)
		mark := nftExpr("meta", nftNumber(unix.NFTA_META_DREG, unix.NFT_REG_1), nftNumber(unix.NFTA_META_KEY, unix.NFT_META_MARK))
		b.rule("sources", mark, nftMask(binary.NativeEndian.AppendUint32(nil, asksMasquerade)), nftCompare(unix.NFT_CMP_NEQ, make([]byte, 4)), nftVerdict(1))
	}
	source, target := nftLoad(unix.NFT_PAYLOAD_NETWORK_HEADER, 12, 4), nftLoad(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 4)
	protocol := nftLoad(unix.NFT_PAYLOAD_NETWORK_HEADER, 9, 1)
	kind, gateway := nftLoad(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1), nftLoad(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 4, 4)
	keep := slices.Concat(source, nftExpr("nat", nftNumber(unix.NFTA_NAT_TYPE, unix.NFT_NAT_SNAT), nftNumber(unix.NFTA_NAT_FAMILY, unix.NFPROTO_IPV4), nftNumber(unix.NFTA_NAT_REG_ADDR_MIN, unix.NFT_REG_1)))
	for _, g := range guests {
		pods, guest := network.Addr().AsSlice(), nftCompare(unix.NFT_CMP_EQ, g.AsSlice())
		mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-network.Bits()))
		b.rule("sources", source, guest, target, nftMask(mask), nftCompare(unix.NFT_CMP_EQ, pods), keep)
		b.rule("sources", target, guest, keep)
		b.rule("redirects", protocol, nftCompare(unix.NFT_CMP_EQ, []byte{unix.IPPROTO_ICMP}), kind, nftCompare(unix.NFT_CMP_EQ, []byte{5}), gateway, guest, nftVerdict(0))
	}
	err := b.send(s)
	if len(guests) == 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)) {
		return nil // without the right to make rules there are none; nor without nftables
	}
	if err != nil {
		return fmt.Errorf("keep packets of guests from being masqueraded: %w", err)
	}
	return nil
}

// openNFT opens a socket for nftables in the network namespace of the thread.
func openNFT() (*nl.NetlinkSocket, error) {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket for nftables: %w", err)
	}
	_ = unix.SetsockoptInt(s.GetFd(), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, mostRules) // without the right there are no guests
	return s, s.SetReceiveTimeout(&unix.Timeval{Sec: 5})
}

// nftBatch is messages that take effect together, or not at all.
type nftBatch []nftMessage

type nftMessage struct {
	what int
	data []byte
}

func (b *nftBatch) chain(name, kind string, hook, priority uint32) {
	at := nftNested(unix.NFTA_CHAIN_HOOK, nftNumber(unix.NFTA_HOOK_HOOKNUM, hook), nftNumber(unix.NFTA_HOOK_PRIORITY, priority))
	*b = append(*b, nftMessage{unix.NFT_MSG_NEWCHAIN, slices.Concat(nftText(unix.NFTA_CHAIN_TABLE, guestTable), nftText(unix.NFTA_CHAIN_NAME, name), nftText(unix.NFTA_CHAIN_TYPE, kind), at)})
}

// rule adds a rule. Its parts pass values through one register.
func (b *nftBatch) rule(chain string, parts ...[]byte) {
	*b = append(*b, nftMessage{unix.NFT_MSG_NEWRULE, slices.Concat(nftText(unix.NFTA_RULE_TABLE, guestTable), nftText(unix.NFTA_RULE_CHAIN, chain), nftNested(unix.NFTA_RULE_EXPRESSIONS, parts...))})
}

// send carries out the messages. The kernel answers the last one, and before it those that failed; or the beginning of all.
func (b nftBatch) send(s *nl.NetlinkSocket) error {
	var all []byte
	add := func(kind, flags int, data []byte) uint32 {
		r := nl.NewNetlinkRequest(kind, flags)
		r.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_IPV4, ResId: unix.NFNL_SUBSYS_NFTABLES << 8})
		r.AddRawData(data)
		all = append(all, r.Serialize()...)
		return r.Seq
	}
	first := add(unix.NFNL_MSG_BATCH_BEGIN, 0, nil)
	var last uint32
	for i, m := range b {
		flags := unix.NLM_F_CREATE | unix.NLM_F_APPEND
		if i == len(b)-1 {
			flags |= unix.NLM_F_ACK
		}
		last = add(unix.NFNL_SUBSYS_NFTABLES<<8|m.what, flags, m.data)
	}
	add(unix.NFNL_MSG_BATCH_END, 0, nil)
	if err := unix.Sendto(s.GetFd(), all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send to nftables: %w", err)
	}
	for failed := error(nil); ; {
		answers, _, err := s.Receive()
		if err != nil {
			return fmt.Errorf("read answer of nftables: %w", errors.Join(failed, err))
		}
		for _, m := range answers {
			if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 && failed == nil {
				failed = syscall.Errno(-code)
			}
			if m.Header.Seq == last || m.Header.Seq == first {
				return failed
			}
		}
	}
}

func nftText(kind int, text string) []byte {
	return nl.NewRtAttr(kind, nl.ZeroTerminated(text)).Serialize()
}

func nftNumber(kind int, n uint32) []byte { return nl.NewRtAttr(kind, nl.BEUint32Attr(n)).Serialize() }

func nftNested(kind int, parts ...[]byte) []byte {
	return nl.NewRtAttr(kind|unix.NLA_F_NESTED, slices.Concat(parts...)).Serialize()
}

func nftExpr(name string, parts ...[]byte) []byte {
	return nftNested(unix.NFTA_LIST_ELEM, nftText(unix.NFTA_EXPR_NAME, name), nftNested(unix.NFTA_EXPR_DATA, parts...))
}

func nftData(kind int, value []byte) []byte {
	return nftNested(kind, nl.NewRtAttr(unix.NFTA_DATA_VALUE, value).Serialize())
}

func nftLoad(base, offset, length uint32) []byte {
	return nftExpr("payload", nftNumber(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), nftNumber(unix.NFTA_PAYLOAD_BASE, base), nftNumber(unix.NFTA_PAYLOAD_OFFSET, offset), nftNumber(unix.NFTA_PAYLOAD_LEN, length))
}

func nftCompare(op uint32, value []byte) []byte {
	return nftExpr("cmp", nftNumber(unix.NFTA_CMP_SREG, unix.NFT_REG_1), nftNumber(unix.NFTA_CMP_OP, op), nftData(unix.NFTA_CMP_DATA, value))
}

// nftMask leaves some bits of the four bytes in the register.
func nftMask(mask []byte) []byte {
	return nftExpr("bitwise", nftNumber(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1), nftNumber(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1), nftNumber(unix.NFTA_BITWISE_LEN, 4),
		nftData(unix.NFTA_BITWISE_MASK, mask), nftData(unix.NFTA_BITWISE_XOR, make([]byte, 4)))
}

func nftVerdict(code uint32) []byte {
	return nftExpr("immediate", nftNumber(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), nftNested(unix.NFTA_IMMEDIATE_DATA, nftNested(unix.NFTA_DATA_VERDICT, nftNumber(unix.NFTA_VERDICT_CODE, code))))
}
