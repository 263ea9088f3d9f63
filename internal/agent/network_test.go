package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// inNetNS moves the test's goroutine into a new network namespace until the test ends. The
// namespace has one interface with an address of each family.
func inNetNS(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	own, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(netns.Set(home), own.Close(), home.Close()); err != nil {
			t.Fatal(err) // the thread stays locked and ends with its goroutine
		}
		runtime.UnlockOSThread()
	})
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "other-end"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eth0", "other-end"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		addr.Flags = 0x02 // IFA_F_NODAD: no duplicate is possible
		if err := netlink.AddrAdd(link, addr); err != nil {
			t.Fatal(err)
		}
	}
}

func addRoute(t *testing.T, to, via string) {
	t.Helper()
	_, dst, err := net.ParseCIDR(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(via), Protocol: 4}); err != nil {
		t.Fatal(err)
	}
}

// routesAre waits until the routes with a gateway, and those that refuse packets, are exactly these.
func routesAre(t *testing.T, h *netlink.Handle, want ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		all, err := h.RouteList(nil, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		var got []string
		for _, r := range all {
			if r.Gw != nil {
				got = append(got, r.Dst.String()+" via "+r.Gw.String())
			}
			if r.Type == unix.RTN_UNREACHABLE && r.Protocol == 0x4c {
				got = append(got, "unreachable "+r.Dst.String())
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("routes (-want +got):\n%s", diff)
		}
		return nil
	})
}

func handle(t testing.TB) *netlink.Handle {
	t.Helper()
	h, err := netlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func peer(name string, cidrs []string, addresses ...string) *corev1.Node {
	n := testenv.ANode(name)
	n.Spec.PodCIDRs, n.Spec.PodCIDR = cidrs, cidrs[0]
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n.Node
}

// routes returns the routes of node n1.
func routes(nodes ...corev1.Node) []plan.Route {
	return plan.OwnNetwork(plan.OwnNetworkInput{Node: "n1", Nodes: nodes}).Routes
}

// TestOwnNetwork follows routes and network configuration while nodes join, change and leave.
func TestOwnNetwork(t *testing.T) {
	inNetNS(t)
	h, n := handle(t), newNode(t, "own-1")
	n.OwnNetwork = true
	n.write(t, filepath.Join(n.ConfDir, "99-later.conflist"), "{}")     // sorts behind ours
	n.write(t, filepath.Join(n.ConfDir, "05-other.conflist.old"), "{}") // no runtime reads this name
	addRoute(t, "10.9.9.0/24", "192.0.2.9")
	a := n.start(t)

	second := peer("own-2", []string{"10.9.2.0/24", "fd09:2::/64"}, "192.0.2.2", "2001:db8::2")
	env.Create(t, second, peer("own-3", []string{"10.9.3.0/24"}, "203.0.113.3")) // no interface leads to 203.0.113.3
	routesAre(t, h, "10.9.2.0/24 via 192.0.2.2", "10.9.9.0/24 via 192.0.2.9", "fd09:2::/64 via 2001:db8::2")
	if err := a.Ready(); err == nil {
		t.Error("ready before its own node is registered")
	}
	env.Create(t, peer(n.Node, []string{"10.9.1.0/24", "fd09:1::/64"}, "192.0.2.1", "2001:db8::1"))
	testenv.Eventually(t, a.Ready)
	checkConflist(t, filepath.Join(n.ConfDir, "10-limpet.conflist"), n.Node, n.StateDir)

	for i, cidr := range []string{"10.9.2.0/24", "0.0.0.0/1", "10.9.1.128/25", "198.51.100.0/24"} { // Nodes that lie
		env.Create(t, peer(fmt.Sprintf("own-liar-%d", i), []string{cidr}, "192.0.2.66"))
	}
	n.metricIsAtLeast(t, "limpet_agent_failures_total network", 3) // some rounds
	routesAre(t, h, "10.9.2.0/24 via 192.0.2.2", "10.9.9.0/24 via 192.0.2.9", "fd09:2::/64 via 2001:db8::2", "unreachable 10.9.1.0/24", "unreachable fd09:1::/64")

	second.Status.Addresses[0].Address = "192.0.2.22" // the node got another address
	if err := env.Client.Status().Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	routesAre(t, h, "10.9.2.0/24 via 192.0.2.22", "10.9.9.0/24 via 192.0.2.9", "fd09:2::/64 via 2001:db8::2", "unreachable 10.9.1.0/24", "unreachable fd09:1::/64")
	if err := env.Client.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	routesAre(t, h, "10.9.2.0/24 via 192.0.2.66", "10.9.9.0/24 via 192.0.2.9", "unreachable 10.9.1.0/24", "unreachable fd09:1::/64")
}

// TestAnAddressWithoutAPodIsRefused asks the kernel where packets to a pod go that is being rebuilt. There are default
// routes, and later a bridge of the network that the node had before.
func TestAnAddressWithoutAPodIsRefused(t *testing.T) {
	inNetNS(t)
	h := handle(t)
	addRoute(t, "0.0.0.0/0", "192.0.2.254")
	addRoute(t, "::/0", "2001:db8::fe")
	goes := func(step, to string, refused error) {
		t.Helper()
		if r, err := h.RouteGet(net.ParseIP(to)); !errors.Is(err, refused) {
			t.Errorf("%s: packets to %s take %v, %v; want %v", step, to, r, err, refused)
		}
	}
	nodes := []corev1.Node{*peer("n1", []string{"10.9.1.0/24", "fd09:1::/64"}), *peer("n2", []string{"10.9.2.0/24"}, "192.0.2.2")}
	for range 2 { // the second time nothing changes
		if err := agent.ApplyRoutes(h, routes(nodes...)); err != nil {
			t.Fatal(err)
		}
		goes("no pod", "10.9.1.7", unix.EHOSTUNREACH)
		goes("no pod", "fd09:1::7", unix.EHOSTUNREACH)
		goes("another node", "10.9.2.7", nil)
	}
	addRoute(t, "10.9.1.7/32", "192.0.2.7")
	goes("a pod", "10.9.1.7", nil)
	goes("no pod", "10.9.1.8", unix.EHOSTUNREACH)
	addRoute(t, "10.9.1.0/24", "192.0.2.9")
	goes("a bridge", "10.9.1.8", nil)
	if err := agent.ApplyRoutes(h, nil); err != nil {
		t.Fatal(err)
	}
	goes("uninstalled", "fd09:1::7", nil)
	routesAre(t, h, "0.0.0.0/0 via 192.0.2.254", "10.9.1.0/24 via 192.0.2.9", "10.9.1.7/32 via 192.0.2.7", "::/0 via 2001:db8::fe")
}

func checkConflist(t *testing.T, path, node, stateDir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	wanted := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "limpet", "plugins": [
		{"type": "ptp", "ipMasq": false, "capabilities": {"io.kubernetes.cri.pod-annotations": true}, "ipam": {
			"type": "limpet-ipam", "node": %q, "dataDir": %q, "maxReservation": "1h0m0s", "maxReservedPercent": 40,
			"ranges": [[{"subnet": "10.9.1.0/24"}], [{"subnet": "fd09:1::/64"}]],
			"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
		{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}]}`, node, stateDir)
	if err := errors.Join(json.Unmarshal(data, &got), json.Unmarshal([]byte(wanted), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conflist (-want +got):\n%s", diff)
	}
}

// TestForeignNetworkIsLeftAlone checks that own mode changes nothing while the node has the
// network configuration of another plugin.
func TestForeignNetworkIsLeftAlone(t *testing.T) {
	inNetNS(t)
	h, n := handle(t), newNode(t, "foreign-1")
	n.OwnNetwork = true
	foreign := filepath.Join(n.ConfDir, "05-other.conflist")
	n.write(t, foreign, "{}")
	env.Create(t,
		peer(n.Node, []string{"10.8.1.0/24"}, "192.0.2.1"),
		peer("foreign-2", []string{"10.8.2.0/24"}, "192.0.2.2"))
	a := n.start(t)
	testenv.Eventually(t, a.Ready)
	if _, err := os.Stat(filepath.Join(n.ConfDir, "10-limpet.conflist")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a second network configuration: %v", err)
	}
	routesAre(t, h)
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	routesAre(t, h, "10.8.2.0/24 via 192.0.2.2", "unreachable 10.8.1.0/24")
}

// TestForeignRouteIsLeftAlone checks that a route of another program is not replaced.
func TestForeignRouteIsLeftAlone(t *testing.T) {
	inNetNS(t)
	h := handle(t)
	addRoute(t, "10.7.2.0/24", "192.0.2.9")
	err := agent.ApplyRoutes(h, routes(*peer("n2", []string{"10.7.2.0/24"}, "192.0.2.2"), *peer("n3", []string{"10.7.3.0/24"}, "192.0.2.3")))
	if !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "10.7.2.0/24") {
		t.Errorf("ApplyRoutes: %v, want an error that names the route in the way", err)
	}
	routesAre(t, h, "10.7.2.0/24 via 192.0.2.9", "10.7.3.0/24 via 192.0.2.3")
}

// TestEachRouteGoes has routes of each form, as an agent that is uninstalled leaves them: one with a gateway, one that refuses
// packets, and those below flannel, of which the last one leads to a guest of this node.
func TestEachRouteGoes(t *testing.T) {
	inNetNS(t)
	h := handle(t)
	link, err := h.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	index := link.Attrs().Index
	made := append(routes(*peer("n1", []string{"10.5.1.0/24", "fd05:1::/64"}), *peer("n2", []string{"10.5.2.0/24"}, "192.0.2.2")),
		plan.Route{To: netip.MustParsePrefix("10.41.1.7/32"), Via: netip.MustParseAddr("203.0.113.2"), Link: index, Onlink: true},
		plan.Route{To: netip.MustParsePrefix("10.41.3.7/32"), Link: index})
	left := func(want int) {
		t.Helper()
		all, err := h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: 0x4c}, netlink.RT_FILTER_PROTOCOL)
		if err != nil || len(all) != want {
			t.Errorf("the agent has %d routes, want %d: %v, %v", len(all), want, all, err)
		}
	}
	if err := agent.ApplyRoutes(h, made); err != nil {
		t.Fatal(err)
	}
	left(5)
	if err := agent.ApplyRoutes(h, nil); err != nil {
		t.Fatal(err)
	}
	left(0)
}

// TestUninstall checks what Uninstall removes, and when it refuses.
func TestUninstall(t *testing.T) {
	inNetNS(t)
	h, n := handle(t), newNode(t, "uninstall-1")
	binary, conf := filepath.Join(n.BinDir, "limpet-ipam"), filepath.Join(n.ConfDir, "10-limpet.conflist")
	n.write(t, binary, "plugin")
	n.write(t, conf, "{}")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	n.reserve(t, "default", "web-1", 0, 1<<40)
	addRoute(t, "10.6.9.0/24", "192.0.2.9")
	if err := agent.ApplyRoutes(h, routes(*peer("n2", []string{"10.6.2.0/24"}, "192.0.2.2"))); err != nil {
		t.Fatal(err)
	}

	t.Run("while an agent runs", func(t *testing.T) {
		a := n.start(t)
		testenv.Eventually(t, a.Ready)
		if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "delete the DaemonSet") {
			t.Errorf("uninstall while an agent runs: %v, want a refusal", err)
		}
	})
	if err := agent.Uninstall(t.Context(), n.Config); err == nil {
		t.Error("uninstall succeeded while a pod is attached")
	}
	stays := func(step string, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: what the DEL of the pod needs: %v", step, err)
			}
		}
		routesAre(t, h, "10.6.2.0/24 via 192.0.2.2", "10.6.9.0/24 via 192.0.2.9") // so that the pod is reached
	}
	stays("no other network", binary, conf)
	n.write(t, filepath.Join(n.ConfDir, "99-loopback.conf"), `{"name": "lo", "type": "loopback"}`)
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "so does the network configuration") {
		t.Errorf("uninstall beside a loopback: %v", err)
	}
	stays("a loopback is no network", binary, conf)
	n.write(t, filepath.Join(n.ConfDir, "99-other.conflist"), `{"name": "other", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}`)
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "still attached") {
		t.Errorf("uninstall beside another network: %v, want it to wait for the pod", err)
	}
	notFound(t, conf)
	stays("another network stands", binary)

	n.update(t, func(tx *persistence.Tx) error {
		return tx.DeleteAttachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
	})
	n.attach(t, "default", "web-2", "u2", filepath.Join(n.NetNSDir, "gone"), 0) // host-local got its DEL
	if err := (&agent.Uninstallation{Config: n.Config}).Try(t.Context()); err != nil {
		t.Fatal(err)
	}
	routesAre(t, h, "10.6.2.0/24 via 192.0.2.2", "10.6.9.0/24 via 192.0.2.9") // pods of other nodes may need them
	for range 2 {                                                             // the second call changes nothing
		if err := agent.Uninstall(t.Context(), n.Config); err != nil {
			t.Fatal(err)
		}
	}
	notFound(t, binary)
	routesAre(t, h, "10.6.9.0/24 via 192.0.2.9")
	n.stateIs(t, map[string]string{"web-1": "reserved", "web-2": "attached, retain 10m0s"})
}

// TestUninstallReadsTheStateOnlyAsNeeded tries again and again while a pod is attached: verbs wait while it reads.
func TestUninstallReadsTheStateOnlyAsNeeded(t *testing.T) {
	inNetNS(t)
	n := newNode(t, "uninstall-2")
	now := clocktesting.NewFakeClock(time.Unix(10000, 0))
	n.Clock = now
	web := reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"}
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	u := agent.Uninstallation{Config: n.Config}
	attached := func(step string, want bool) {
		t.Helper()
		err := u.Try(t.Context())
		if (err != nil) != want || want && !strings.Contains(err.Error(), "still attached") {
			t.Errorf("%s: %v, want attached %t", step, err, want)
		}
	}
	attached("at first", true)
	n.write(t, filepath.Join(n.NetNSDir, "other"), "")
	if err := os.Remove(n.liveNetNS()); err != nil {
		t.Fatal(err)
	}
	now.Step(29 * time.Second)
	attached("without a verb", true)
	now.Step(time.Second)
	attached("after a while", false)
	n.attach(t, "default", "web-0", "u0", filepath.Join(n.NetNSDir, "other"), 0)
	attached("after a verb", true)
	n.release(t, web)
	attached("after another verb", false)
}

func notFound(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", path, err)
	}
}
