package machine_test

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/limpet-io/limpet/internal/machine"
)

func TestForgetNeighbours(t *testing.T) {
	runtime.LockOSThread() // never unlocked: thread and namespace end with the test
	space, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = space.Close() }()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	entries := map[string]int{ // address → state
		"10.1.2.3": netlink.NUD_REACHABLE, "10.1.2.4": netlink.NUD_REACHABLE, "10.1.2.5": netlink.NUD_PERMANENT,
		"fd00:1::3": netlink.NUD_STALE, "fd00:1::4": netlink.NUD_REACHABLE,
	}
	for addr, state := range entries {
		n := &netlink.Neigh{LinkIndex: link.Index, State: state, IP: net.ParseIP(addr), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
		if err := netlink.NeighSet(n); err != nil {
			t.Fatal(err)
		}
	}
	var gone []netip.Addr
	for _, addr := range []string{"10.1.2.3", "10.1.2.5", "10.1.2.99", "fd00:1::3"} {
		gone = append(gone, netip.MustParseAddr(addr))
	}
	if err := machine.ForgetNeighbours(gone); err != nil {
		t.Fatal(err)
	}
	left, err := netlink.NeighList(link.Index, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range left {
		if _, ours := entries[n.IP.String()]; ours && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
			got = append(got, n.IP.String())
		}
	}
	slices.Sort(got)
	if want := []string{"10.1.2.4", "10.1.2.5", "fd00:1::4"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v: the addresses not named, and the permanent entry", got, want)
	}
}
