package agent_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// newFlannel returns a node on which flannel runs with --ip-blackhole-route: with its file, its routes, its annotations and its bridge.
func newFlannel(t *testing.T, name string) *node {
	t.Helper()
	inNetNS(t)
	n := newNode(t, name)
	n.Flannel, n.SubnetEnv = true, filepath.Join(t.TempDir(), "subnet.env")
	n.write(t, n.SubnetEnv, "FLANNEL_NETWORK=10.41.0.0/16\nFLANNEL_SUBNET=10.41.2.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
	n.write(t, filepath.Join(n.ConfDir, "10-flannel.conflist"), `{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"flannel","ipam":{"type":"limpet-ipam"},"delegate":{"bridge":"br1","isDefaultGateway":true}}]}`)
	o := peer(name, []string{"10.41.2.0/24"}, "192.0.2.1")
	o.Annotations = loan.FlannelAnnotations("host-gw")
	env.Create(t, o)
	addRoute(t, "10.41.1.0/24", "192.0.2.2")
	addRoute(t, "10.41.3.0/24", "192.0.2.3")
	bridge, pods := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}, net.IPNet{IP: net.IPv4(10, 41, 2, 0), Mask: net.CIDRMask(24, 32)}
	if err := errors.Join(netlink.RouteAdd(&netlink.Route{Dst: &pods, Type: unix.RTN_BLACKHOLE}), netlink.LinkAdd(bridge), netlink.LinkSetUp(bridge)); err != nil {
		t.Fatal(err)
	}
	return n
}

// below waits until the node has these routes, answers and rules for guests.
func below(t *testing.T, h *netlink.Handle, bridge int, want string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		routes, err := h.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: 0x4c}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return err
		}
		var got []string
		for _, r := range routes {
			got = append(got, fmt.Sprintf("%s via %v bridge %t", r.Dst, r.Gw, r.LinkIndex == bridge))
		}
		proxies, err := h.NeighProxyList(bridge, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, p := range proxies {
			got = append(got, "answers for "+p.IP.String())
		}
		slices.Sort(got)
		if all := strings.Join(got, ", "); all != want {
			return fmt.Errorf("got %s, want %s", all, want)
		}
		return nil
	})
}

// guestRules counts the rules of nftables in the thread's network namespace.
func guestRules(t *testing.T) int {
	t.Helper()
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{})
	rules, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(rules)
}

// TestAGuestBelowFlannel lets a node below flannel borrow an address, and reach one of its own that another node has borrowed.
func TestAGuestBelowFlannel(t *testing.T) {
	ns, n := env.Namespace(t), newFlannel(t, "flannel-2")
	here := handle(t)
	link, err := here.LinkByName("br1")
	if err != nil {
		t.Fatal(err)
	}
	for node, cidr := range map[string]string{"flannel-1": "10.41.1.0/24", "flannel-3": "10.41.3.0/24"} {
		env.Create(t, peer(node, []string{cidr}, "192.0.2.9"))
	}
	owner := func(pod string) reservation.Owner {
		return reservation.Owner{Network: "cbr0", Namespace: ns, Pod: pod, IfName: "eth0"}
	}
	n.update(t, func(tx *persistence.Tx) (err error) {
		for pod, ip := range map[string]string{"web-1": "10.41.2.7", "of-an-earlier-subnet": "10.41.3.9"} {
			err = errors.Join(err, tx.PutReservation(reservation.Reservation{
				Owner: owner(pod), Addresses: []netip.Addr{netip.MustParseAddr(ip)}, Mode: reservation.Follow, Retain: reservation.Forever,
				Deadline: reservation.Deadline{From: n.Now(), For: reservation.Forever}, BootID: n.Now().BootID,
			}))
		}
		return err
	})
	follows := filepath.Join(n.StateDir, persistence.FollowsFile)
	n.write(t, follows, `{"network":"cbr`) // as a disk can lose the rest
	n.start(t)
	put := func(pod, ip string, l loan.Loan) *v1alpha1.BorrowedAddress {
		t.Helper()
		o := &v1alpha1.BorrowedAddress{Spec: v1alpha1.BorrowedAddressSpec{Pod: pod, Interface: "eth0", Network: "cbr0", IPs: ip}}
		o.Namespace, o.Name = ns, o.Spec.ObjectName()
		o.Status = v1alpha1.BorrowedAddressStatus{Home: l.Home, Borrower: l.Borrower, Phase: v1alpha1.LoanPhase(l.Phase), Epoch: l.Epoch}
		env.Create(t, o)
		return o
	}
	isTold := func() {
		t.Helper()
		testenv.Eventually(t, func() error {
			f, err := persistence.ReadFollows(n.StateDir)
			if err == nil && fmt.Sprint(f) != "{cbr0 br1 flannel-2 [10.41.2.0/24]}" {
				err = fmt.Errorf("the plugin is told %v", f)
			}
			return errors.Join(err, exists(filepath.Join(n.BinDir, plan.PluginName)))
		})
	}
	isTold()
	env.Create(t, testenv.APod("web-0").In(ns).On(n.Node).With(reservation.ModeAnnotation, "follow").Pod)
	guest := put("web-0", "10.41.1.7", loan.Loan{Home: "flannel-1", Borrower: n.Node, Phase: loan.Lent, Epoch: 10})
	below(t, here, link.Attrs().Index, "10.41.1.7/32 via <nil> bridge true, answers for 10.41.1.1")
	rulesAre := func(want int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if rules := guestRules(t); rules != want {
				return fmt.Errorf("%d rules, want %d", rules, want)
			}
			return nil
		})
	}
	rulesAre(4)
	renewed := make(chan netlink.RouteUpdate, 100)
	if err := netlink.RouteSubscribe(renewed, t.Context().Done()); err != nil {
		t.Fatal(err)
	}
	change(t, guest, func(s *v1alpha1.BorrowedAddressStatus) { s.Epoch = 11 }) // it was taken for dead, and is not
	borrows(t, n, owner("web-0"), 11)
	if err := errors.Join(os.Remove(filepath.Join(n.ConfDir, "10-flannel.conflist")), os.Remove(follows)); err != nil {
		t.Fatal(err)
	}
	isTold()
	for len(renewed) > 0 { // the kernel adds routes of its own
		if r := <-renewed; r.Protocol == 0x4c {
			t.Errorf("the route to a guest changed: %+v", r)
		}
	}
	at, bridgeMAC := warmNeighbour(t, "br1", "10.41.2.7")
	lent := put("web-1", "10.41.2.7", loan.Loan{Home: n.Node, Phase: loan.Asked, Epoch: 10})
	loanIs(t, lent, &loan.Loan{Home: n.Node, Phase: loan.Lent, Epoch: 10})
	change(t, lent, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "flannel-3", 11 })
	below(t, here, link.Attrs().Index, "10.41.1.7/32 via <nil> bridge true, 10.41.2.7/32 via 192.0.2.3 bridge false, answers for 10.41.1.1, answers for 10.41.2.7")
	asksBridge(t, here, at, bridgeMAC)
	if _, err := here.RouteGet(net.IPv4(10, 41, 2, 8)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("an address that no pod has: %v, want the blackhole of flannel", err)
	}
	if to, err := here.RouteGet(net.IPv4(10, 41, 2, 7)); err != nil || !to[0].Gw.Equal(net.IPv4(192, 0, 2, 3)) {
		t.Errorf("to what is lent: %v, %v; want the route to the borrower", to, err)
	}

	change(t, guest, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "", 12 })
	change(t, guest, func(s *v1alpha1.BorrowedAddressStatus) { s.Borrower, s.Epoch = "flannel-3", 13 }) // the node was taken for dead
	below(t, here, link.Attrs().Index, "10.41.1.7/32 via 192.0.2.3 bridge false, 10.41.2.7/32 via 192.0.2.3 bridge false, answers for 10.41.1.1, answers for 10.41.2.7")
	rulesAre(0)
}

// TestAnAgentThatStartsAnnouncesWhatIsLent has an agent that was killed after it had made the route to a guest, and before it told the
// pods on the bridge.
func TestAnAgentThatStartsAnnouncesWhatIsLent(t *testing.T) {
	ns, n := env.Namespace(t), newFlannel(t, "flannel-2")
	here := handle(t)
	env.Create(t, peer("flannel-3", []string{"10.41.3.0/24"}, "192.0.2.9"))
	owner := reservation.Owner{Network: "cbr0", Namespace: ns, Pod: "web-0", IfName: "eth0"}
	n.update(t, func(tx *persistence.Tx) error {
		return tx.PutReservation(reservation.Reservation{
			Owner: owner, Addresses: []netip.Addr{netip.MustParseAddr("10.41.2.7")}, Mode: reservation.Follow, Retain: reservation.Forever, Lent: 10,
			Deadline: reservation.Deadline{From: n.Now(), For: reservation.Forever}, BootID: n.Now().BootID,
		})
	})
	to := net.IPNet{IP: net.IPv4(10, 41, 2, 7), Mask: net.CIDRMask(32, 32)}
	if err := netlink.RouteAdd(&netlink.Route{Dst: &to, Gw: net.IPv4(192, 0, 2, 3), Protocol: 0x4c}); err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.BorrowedAddress{Spec: v1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: "cbr0", IPs: "10.41.2.7"}}
	o.Namespace, o.Name = ns, o.Spec.ObjectName()
	o.Status = v1alpha1.BorrowedAddressStatus{Home: n.Node, Borrower: "flannel-3", Phase: "Lent", Epoch: 10}
	env.Create(t, o)
	at, bridgeMAC := warmNeighbour(t, "br1", "10.41.2.7")
	n.start(t)
	asksBridge(t, here, at, bridgeMAC)
}

// asksBridge waits until an interface of a pod knows one neighbour, and takes the bridge for it.
func asksBridge(t *testing.T, h *netlink.Handle, at int, bridgeMAC func() string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		known, err := h.NeighList(at, netlink.FAMILY_V4)
		if err == nil && (len(known) != 1 || known[0].HardwareAddr.String() != bridgeMAC()) {
			err = fmt.Errorf("the pod sends packets for what is lent to %v, want %s", known, bridgeMAC())
		}
		return err
	})
}

// warmNeighbour makes an interface of a pod on a bridge, which knows where an address was. It returns the number of the interface, and
// a function that returns the link-layer address of the bridge.
func warmNeighbour(t *testing.T, bridge, ip string) (at int, mac func() string) {
	t.Helper()
	pod := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod"}, PeerName: "port"}
	err := netlink.LinkAdd(pod)
	port, err2 := netlink.LinkByName("port")
	to, err3 := netlink.LinkByName(bridge)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	known := netlink.Neigh{LinkIndex: pod.Index, State: netlink.NUD_REACHABLE, IP: net.ParseIP(ip), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
	if err := errors.Join(netlink.LinkSetMaster(port, to), netlink.LinkSetUp(port), netlink.LinkSetUp(pod), netlink.NeighSet(&known)); err != nil {
		t.Fatal(err)
	}
	h := handle(t)
	return pod.Index, func() string {
		link, err := h.LinkByName(bridge)
		if err != nil {
			t.Fatal(err)
		}
		return link.Attrs().HardwareAddr.String()
	}
}

// borrows waits until the state has an owner as a guest of an epoch.
func borrows(t *testing.T, n *node, o reservation.Owner, epoch int64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		return persistence.New(persistence.Options{Dir: n.StateDir}).View(t.Context(), func(tx *persistence.Tx) error {
			if r, _, err := tx.Reservation(o); err != nil || r.Guest != epoch {
				return fmt.Errorf("the state has epoch %d, %w", r.Guest, err)
			}
			return nil
		})
	})
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}
