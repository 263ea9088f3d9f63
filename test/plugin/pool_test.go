package plugin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// smallPool returns the configuration of an interface plugin over the IPv4 addresses 10.1.2.2 to 10.1.2.last. Pods ask for
// nothing.
func smallPool(dir, plugin string, last int, ipam map[string]any) map[string]any {
	c := interfaceConf(dir, plugin)
	keys := c["ipam"].(map[string]any)
	keys["ranges"] = json.RawMessage(fmt.Sprintf(`[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.2","rangeEnd":"10.1.2.%d"}]]`, last))
	delete(keys, "routes")
	maps.Copy(keys, ipam)
	c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{}}
	return c
}

// TestAnAddressWithARouteIsPassedOver has a route to an address that the state has as free, as another runtime's pod of
// ptp would. With the link the route goes, too.
func TestAnAddressWithARouteIsPassedOver(t *testing.T) {
	node, first, second := newNetNS(t, "node"), newNetNS(t, "pod-1"), newNetNS(t, "pod-2")
	conf := smallPool(t.TempDir(), "ptp", 3, map[string]any{"releaseDelay": "0s"})
	add := func(s space) answer {
		return node.run(t, call{plugin: lookPath(t, "ptp"), container: s.name, netns: s.path, args: pod(s.name, "u"), conf: conf}, "ADD")
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "limpet-other"}, PeerName: "limpet-pod"}
	err := node.in(func() error {
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: net.IP{10, 1, 2, 2}, Mask: net.CIDRMask(32, 32)}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := add(first); fmt.Sprint(a.addrs()) != "[10.1.2.3]" {
		t.Fatalf("the first pod has %v: %s%s", a.addrs(), a.stdout, a.stderr)
	}
	if a := add(second); a.Code != 100 || !strings.Contains(a.Msg, "ip route get 10.1.2.2") {
		t.Errorf("the second pod has %v, and 10.1.2.2 is in use: %s", a.addrs(), a.stdout)
	}
	if err := node.in(func() error { return netlink.LinkDel(link) }); err != nil {
		t.Fatal(err)
	}
	if a := add(second); fmt.Sprint(a.addrs()) != "[10.1.2.2]" {
		t.Errorf("the second pod has %v: %s%s", a.addrs(), a.stdout, a.stderr)
	}
}

// TestANewOwnerInheritsNoConnection hands an address from one pod to another on a bridge. The kernel had tracked
// connections of both the address and another one, and neighbours.
func TestANewOwnerInheritsNoConnection(t *testing.T) {
	notEmulated(t)
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_count"); err != nil {
		t.Fatalf("this kernel tracks no connections: %v", err)
	}
	node, stays, first, second := newNetNS(t, "node"), newNetNS(t, "pod-0"), newNetNS(t, "pod-1"), newNetNS(t, "pod-2")
	dir := t.TempDir()
	conf := smallPool(dir, "bridge", 3, nil)
	of := func(s space) call {
		return call{plugin: lookPath(t, "bridge"), container: s.name, netns: s.path, args: pod(s.name, "u-"+s.name), conf: conf}
	}
	old := netip.MustParseAddr("10.1.2.3")
	if a := node.run(t, of(stays), "ADD"); a.exit != 0 { // a bridge without ports forgets its neighbours by itself
		t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
	}
	if a := node.run(t, of(first), "ADD"); fmt.Sprint(a.addrs()) != "[10.1.2.3]" {
		t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
	}
	if err := node.in(func() error { return leaveTraces(old, netip.MustParseAddr("10.1.2.200")) }); err != nil {
		t.Fatal(err)
	}
	ended := of(first)
	ended.conf = withPrevious(smallPool(dir, "bridge", 3, nil), []netip.Addr{old})
	if a := node.run(t, ended, "DEL"); a.exit != 0 {
		t.Fatalf("DEL: %s%s", a.stdout, a.stderr)
	}
	if a := node.run(t, of(second), "ADD"); fmt.Sprint(a.addrs()) != "[10.1.2.3]" {
		t.Fatalf("ADD: %s%s", a.stdout, a.stderr)
	}
	err := node.in(func() error {
		left, err := traces()
		if left[old] != 0 || left[netip.MustParseAddr("10.1.2.200")] != 2 {
			t.Errorf("connections and neighbours left, by address: %v", left)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// leaveTraces stores a tracked connection and a neighbour of each address.
func leaveTraces(addrs ...netip.Addr) error {
	bridge, err := netlink.LinkByName("br-limpet")
	if err != nil {
		return err
	}
	for _, a := range addrs {
		pod, peer := net.IP(a.AsSlice()), net.IP{192, 0, 2, 1}
		err := netlink.ConntrackCreate(netlink.ConntrackTable, netlink.FAMILY_V4, &netlink.ConntrackFlow{
			FamilyType: unix.AF_INET, TimeOut: 600, ProtoInfo: &netlink.ProtoInfoTCP{State: 3},
			Forward: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: pod, DstIP: peer, SrcPort: 1234, DstPort: 80},
			Reverse: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: peer, DstIP: pod, SrcPort: 80, DstPort: 1234},
		})
		if err != nil {
			return fmt.Errorf("track connection of %s: %w", a, err)
		}
		err = netlink.NeighSet(&netlink.Neigh{LinkIndex: bridge.Attrs().Index, State: netlink.NUD_STALE, IP: pod, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}})
		if err != nil {
			return fmt.Errorf("set neighbour %s: %w", a, err)
		}
	}
	return nil
}

// traces counts the tracked connections and neighbours of each address.
func traces() (map[netip.Addr]int, error) {
	left := map[netip.Addr]int{}
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	for _, f := range flows {
		a, _ := netip.AddrFromSlice(f.Forward.SrcIP.To4())
		left[a]++
	}
	neighbours, err := netlink.NeighList(0, netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	for _, n := range neighbours {
		if a, _ := netip.AddrFromSlice(n.IP.To4()); n.HardwareAddr.String() == "02:00:00:00:00:01" {
			left[a]++
		}
	}
	return left, nil
}
