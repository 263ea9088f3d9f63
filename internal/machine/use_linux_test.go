package machine_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/machine"
)

// newSpace moves the test into a network namespace of its own, with a link that has addresses.
func newSpace(t testing.TB, addrs ...string) netlink.Link {
	t.Helper()
	runtime.LockOSThread() // never unlocked: thread and namespace end with the test
	space, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = space.Close() })
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lo", "a", "b"} {
		up, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(up)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range addrs {
		parsed, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		parsed.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, parsed); err != nil {
			t.Fatal(err)
		}
	}
	return link
}

func route(t *testing.T, r netlink.Route, dst string) {
	t.Helper()
	_, to, err := net.ParseCIDR(dst)
	if err != nil {
		t.Fatal(err)
	}
	r.Dst = to
	if err := netlink.RouteAdd(&r); err != nil {
		t.Fatalf("route to %s: %v", dst, err)
	}
}

// TestUseOf asks about addresses in a namespace with routes and neighbours of every kind.
func TestUseOf(t *testing.T) {
	link := newSpace(t, "10.1.0.1/24", "fd00:1::1/64")
	at := link.Attrs().Index
	route(t, netlink.Route{LinkIndex: at, Scope: netlink.SCOPE_LINK}, "10.1.0.2/32") // as ptp does for a pod
	route(t, netlink.Route{LinkIndex: at}, "fd00:1::2/128")
	route(t, netlink.Route{Gw: net.ParseIP("10.1.0.9")}, "10.1.0.3/32")
	route(t, netlink.Route{Type: unix.RTN_BLACKHOLE}, "10.1.0.4/32")
	route(t, netlink.Route{LinkIndex: at, Scope: netlink.SCOPE_LINK}, "10.1.0.64/31")
	route(t, netlink.Route{Gw: net.ParseIP("10.1.0.9")}, "10.3.0.0/24")
	for addr, state := range map[string]int{
		"10.1.0.10": netlink.NUD_REACHABLE, "10.1.0.11": netlink.NUD_PERMANENT, "10.1.0.12": netlink.NUD_STALE,
		"fd00:1::10": netlink.NUD_REACHABLE, "fd00:1::12": netlink.NUD_STALE, "10.3.0.10": netlink.NUD_REACHABLE,
	} {
		n := &netlink.Neigh{LinkIndex: at, State: state, IP: net.ParseIP(addr), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
		if err := netlink.NeighSet(n); err != nil {
			t.Fatal(err)
		}
	}
	for addr, want := range map[string]ipam.Use{
		"10.1.0.1": ipam.Routed, "fd00:1::1": ipam.Routed, // the machine's own
		"10.1.0.2": ipam.Routed, "fd00:1::2": ipam.Routed, "10.1.0.3": ipam.Routed,
		"10.1.0.4": ipam.Unused, "10.1.0.65": ipam.Unused, "10.1.0.255": ipam.Unused, // blackhole, a wider route, broadcast
		"10.1.0.10": ipam.Reached, "10.1.0.11": ipam.Reached, "fd00:1::10": ipam.Reached,
		"10.1.0.12": ipam.Unused, "fd00:1::12": ipam.Unused, "10.3.0.10": ipam.Unused, // stale; behind a gateway
		"10.1.0.99": ipam.Unused, "192.0.2.1": ipam.Unused, "fd00:9::1": ipam.Unused,
	} {
		got, err := machine.UseOf(netip.MustParseAddr(addr))
		for deadline := time.Now().Add(time.Minute); got != want && addr == "fd00:1::1" && time.Now().Before(deadline); {
			got, err = machine.UseOf(netip.MustParseAddr(addr)) // the kernel makes the route a moment after the address
		}
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", addr, got, err, want)
		}
	}
}

// BenchmarkUseOf asks about a free address of a bridge's range, beside a number of pods with routes and neighbours.
func BenchmarkUseOf(b *testing.B) {
	link := newSpace(b, "10.1.0.1/16")
	at := link.Attrs().Index
	for i := range 250 {
		ip := net.IPv4(10, 1, 1, byte(i))
		_ = netlink.RouteAdd(&netlink.Route{LinkIndex: at, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)}})
		_ = netlink.NeighSet(&netlink.Neigh{LinkIndex: at, State: netlink.NUD_REACHABLE, IP: ip, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}})
	}
	for b.Loop() {
		if use, err := machine.UseOf(netip.MustParseAddr("10.1.2.3")); use != ipam.Unused || err != nil {
			b.Fatal(use, err)
		}
	}
}

// track stores n connections, each with the address at one of three places.
func track(t testing.TB, family netlink.InetFamily, addr string, n int) {
	t.Helper()
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_count"); err != nil {
		t.Fatalf("this kernel tracks no connections: %v", err)
	}
	other, vip := "192.0.2.1", "192.0.2.99"
	if family == netlink.FAMILY_V6 {
		other, vip = "2001:db8::1", "2001:db8::99"
	}
	ip := func(text string) net.IP {
		parsed := netip.MustParseAddr(text)
		return parsed.AsSlice() // of four bytes for IPv4
	}
	last := ip(addr)[len(ip(addr))-1] // gives each address ports of its own
	for i := range n {
		from, to := uint16(1024+i), uint16(last)<<8+uint16(i>>15)
		src, dst, back := addr, other, other
		switch i % 3 {
		case 1: // to the pod
			src, dst, back = other, addr, addr
		case 2: // to the pod through a service
			src, dst, back = other, vip, addr
		}
		flow := &netlink.ConntrackFlow{
			FamilyType: uint8(family), TimeOut: 600, ProtoInfo: &netlink.ProtoInfoTCP{State: 3},
			Forward: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: ip(src), DstIP: ip(dst), SrcPort: from, DstPort: to},
			Reverse: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: ip(back), DstIP: ip(src), SrcPort: to, DstPort: from},
		}
		if err := netlink.ConntrackCreate(netlink.ConntrackTable, family, flow); err != nil {
			t.Fatalf("track connection %d of %s: %v", i, addr, err)
		}
	}
}

// connections counts the tracked connections that name an address.
func connections(t testing.TB, family netlink.InetFamily, addr string) (n int) {
	t.Helper()
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flows {
		text := f.String() + " "
		if strings.Contains(text, "="+addr+" ") {
			n++
		}
	}
	return n
}

// TestForgetConnections forgets the connections of one address of each family among others.
func TestForgetConnections(t *testing.T) {
	newSpace(t)
	gone := []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00:1::2"), netip.MustParseAddr("10.1.0.77")}
	if err := machine.ForgetConnections(gone); err != nil {
		t.Errorf("with no connection: %v", err)
	}
	for _, addr := range []string{"10.1.0.2", "10.1.0.3", "10.1.0.20"} {
		track(t, netlink.FAMILY_V4, addr, 9)
	}
	for _, addr := range []string{"fd00:1::2", "fd00:1::20"} {
		track(t, netlink.FAMILY_V6, addr, 9)
	}
	if err := machine.ForgetConnections(gone); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]int{"10.1.0.2": 0, "10.1.0.3": 9, "10.1.0.20": 9} {
		if got := connections(t, netlink.FAMILY_V4, addr); got != want {
			t.Errorf("%d connections of %s are left, want %d", got, addr, want)
		}
	}
	for addr, want := range map[string]int{"fd00:1::2": 0, "fd00:1::20": 9} {
		if got := connections(t, netlink.FAMILY_V6, addr); got != want {
			t.Errorf("%d connections of %s are left, want %d", got, addr, want)
		}
	}
}

// BenchmarkForgetOwner forgets the owner of an address without connections, beside others that have some.
func BenchmarkForgetOwner(b *testing.B) {
	for _, n := range []int{0, 1_000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			newSpace(b)
			track(b, netlink.FAMILY_V4, "10.1.0.3", n)
			gone := []netip.Addr{netip.MustParseAddr("10.1.0.2")}
			for b.Loop() {
				if err := machine.ForgetOwner(gone); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
