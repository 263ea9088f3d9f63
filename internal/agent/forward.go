package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ForwardDrops names the chains of nftables that drop forwarded packets unless a rule accepts them, such as that of
// Docker or ufw. The chains of iptables are among them, but not those of iptables-legacy.
func ForwardDrops() (string, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{})
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return "", fmt.Errorf("list chains of nftables: %w", err)
	}
	var drops []string
	for _, m := range messages {
		family, chain := m[0], attributes(m[nl.SizeofNfgenmsg:])
		hook, policy := attributes(chain[unix.NFTA_CHAIN_HOOK])[unix.NFTA_HOOK_HOOKNUM], chain[unix.NFTA_CHAIN_POLICY]
		if !slices.Contains([]byte{unix.NFPROTO_INET, unix.NFPROTO_IPV4, unix.NFPROTO_IPV6}, family) || len(hook) != 4 || len(policy) != 4 {
			continue
		}
		if binary.BigEndian.Uint32(hook) == unix.NF_INET_FORWARD && binary.BigEndian.Uint32(policy) == 0 { // NF_DROP
			drops = append(drops, fmt.Sprintf("%s %s", text(chain[unix.NFTA_CHAIN_TABLE]), text(chain[unix.NFTA_CHAIN_NAME])))
		}
	}
	slices.Sort(drops)
	return strings.Join(drops, ", "), nil
}

// attributes returns the values of netlink attributes by their type.
func attributes(data []byte) map[uint16][]byte {
	all := map[uint16][]byte{}
	parsed, _ := nl.ParseRouteAttr(data) // what cannot be read is not there
	for _, a := range parsed {
		all[a.Attr.Type&^unix.NLA_F_NESTED] = a.Value
	}
	return all
}

func text(value []byte) string { return string(bytes.TrimRight(value, "\x00")) }
