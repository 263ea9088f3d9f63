package agent

import (
	"encoding/binary"
	"errors"
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
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil // a kernel without nftables has no such chains
	}
	if err != nil {
		return "", fmt.Errorf("list chains of nftables: %w", err)
	}
	forward, drop := string(binary.BigEndian.AppendUint32(nil, unix.NF_INET_FORWARD)), "\x00\x00\x00\x00"
	var drops []string
	for _, m := range messages {
		chain := attributes(string(m[nl.SizeofNfgenmsg:]))
		hook := attributes(chain[unix.NFTA_CHAIN_HOOK])[unix.NFTA_HOOK_HOOKNUM]
		if slices.Contains([]byte{unix.NFPROTO_INET, unix.NFPROTO_IPV4, unix.NFPROTO_IPV6}, m[0]) && hook == forward && chain[unix.NFTA_CHAIN_POLICY] == drop {
			drops = append(drops, strings.ReplaceAll(chain[unix.NFTA_CHAIN_TABLE]+" "+chain[unix.NFTA_CHAIN_NAME], "\x00", ""))
		}
	}
	slices.Sort(drops)
	return strings.Join(drops, ", "), nil
}

// attributes returns the values of netlink attributes by their type. One that cannot be read is not there.
func attributes(data string) map[uint16]string {
	all := map[uint16]string{}
	parsed, _ := nl.ParseRouteAttr([]byte(data))
	for _, a := range parsed {
		all[a.Attr.Type&^unix.NLA_F_NESTED] = string(a.Value)
	}
	return all
}
