package agent_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// newShared returns a node on a segment that nodes share, with its bridge and a pod there that has an address.
func newShared(t *testing.T, name, address string) (n *node, pod *netlink.Veth) {
	t.Helper()
	inNetNS(t)
	n = newNode(t, name)
	n.Shared, n.Ranges = true, func(conf []byte) (string, []ipam.Set, error) {
		c, err := netconf.Decode(conf).ParseAdd()
		if err != nil {
			return "", nil, err
		}
		return c.Segment, c.Sets, nil
	}
	ns, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	in := func(fn func() error) error { // the agent has threads in other namespaces
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			err := netns.Set(ns)
			if err == nil {
				err = fn()
			}
			done <- err
		}()
		return <-done
	}
	n.Ask = func(link string, addrs []netip.Addr) (macs map[netip.Addr]net.HardwareAddr, err error) {
		err = in(func() (err error) {
			macs, err = machine.Ask(link, addrs)
			return err
		})
		return macs, err
	}
	n.Announce = func(link string, addr netip.Addr, mac net.HardwareAddr) error {
		return in(func() error { return machine.Announce(link, addr, mac) })
	}
	n.write(t, filepath.Join(n.ConfDir, "10-lan.conflist"), `{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"bridge","bridge":"br1",
		"ipam":{"type":"limpet-ipam","sharedNetwork":true,"ranges":[[{"subnet":"10.42.0.0/16","rangeStart":"10.42.2.4","rangeEnd":"10.42.2.7"}]]}}]}`)
	env.Create(t, peer(name, []string{"10.244.2.0/24"}, "192.0.2.1"))
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}
	pod = &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod"}, PeerName: "port"}
	err = errors.Join(netlink.LinkAdd(bridge), netlink.LinkAdd(pod))
	port, err2 := netlink.LinkByName("port")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	on := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)}}
	if err := errors.Join(netlink.LinkSetMaster(port, bridge), netlink.LinkSetUp(port), netlink.LinkSetUp(pod), netlink.LinkSetUp(bridge), netlink.AddrAdd(pod, on)); err != nil {
		t.Fatal(err)
	}
	return n, pod
}

// announced waits for an announcement of an address that an interface receives.
func announced(t *testing.T, at *netlink.Veth, address string) func() {
	t.Helper()
	const arp = 0x0608 // in the order of the network, on most machines
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, arp)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: arp, Ifindex: at.Index})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	want := netip.MustParseAddr(address).AsSlice()
	return func() {
		testenv.Eventually(t, func() error {
			var data [64]byte
			for {
				n, _, err := unix.Recvfrom(fd, data[:], 0)
				if err != nil {
					return fmt.Errorf("no announcement: %w", err)
				}
				if n >= 28 && slices.Equal(data[14:18], want) && slices.Equal(data[24:28], want) && slices.Equal(data[8:14], at.HardwareAddr) {
					return nil
				}
			}
		})
	}
}

// TestAGuestOnASharedSegment lets a node lend, borrow and announce, and keep what came with a range of a home that is gone.
func TestAGuestOnASharedSegment(t *testing.T) {
	ns := env.Namespace(t)
	n, pod := newShared(t, "shared-2", "10.42.1.7")
	at, err := netlink.LinkByName("pod")
	if err != nil {
		t.Fatal(err)
	}
	pod.Attrs().HardwareAddr, pod.Attrs().Index = at.Attrs().HardwareAddr, at.Attrs().Index
	owner := func(pod string) reservation.Owner {
		return reservation.Owner{Network: "lan", Namespace: ns, Pod: pod, IfName: "eth0"}
	}
	put := func(pod, ip string, l loan.Loan) *v1alpha1.BorrowedAddress {
		t.Helper()
		o := plan.ShowLoan(plan.LoanCase{Owner: owner(pod), Addresses: []netip.Addr{netip.MustParseAddr(ip)}}, l, metav1.Now())
		env.Create(t, o)
		return o
	}
	n.update(t, func(tx *persistence.Tx) error {
		return tx.PutReservation(reservation.Reservation{
			Owner: owner("web-1"), Addresses: []netip.Addr{netip.MustParseAddr("10.42.2.7")}, Mode: reservation.Follow, Retain: reservation.Forever,
			Deadline: reservation.Deadline{From: n.Now(), For: reservation.Forever}, BootID: n.Now().BootID,
		})
	})
	taken := put("web-2", "10.42.2.5", loan.Loan{Home: "gone", Phase: loan.Lent, Epoch: 9})
	hears := announced(t, pod, "10.42.1.7")
	announce, failed := n.Announce, false
	n.Announce = func(link string, addr netip.Addr, mac net.HardwareAddr) error {
		if !failed {
			failed = true
			return errors.New("no buffer space available")
		}
		return announce(link, addr, mac)
	}
	n.start(t)
	lentAt := func(epoch int64) {
		t.Helper()
		testenv.Eventually(t, func() error {
			return persistence.New(persistence.Options{Dir: n.StateDir}).View(t.Context(), func(tx *persistence.Tx) error {
				if r, _, err := tx.Reservation(owner("web-2")); err != nil || r.Lent != epoch {
					return fmt.Errorf("lent %d, want %d, %w", r.Lent, epoch, err)
				}
				return nil
			})
		})
	}
	testenv.Eventually(t, func() error {
		f, err := persistence.ReadFollows(n.StateDir)
		if err == nil && fmt.Sprint(f) != "{lan br1 shared-2 [10.42.2.4/30]}" {
			err = fmt.Errorf("the plugin is told %v", f)
		}
		return errors.Join(err, exists(filepath.Join(n.BinDir, plan.PluginName)))
	})
	lentAt(9) // the plugin is there only now
	testenv.Eventually(t, func() error {
		p := v1alpha1.NodeIPPool{}
		p.Name = v1alpha1.ObjectName(n.Node, "lan")
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(&p), &p)
		if err == nil && !p.Status.SharedNetwork {
			err = fmt.Errorf("the pool shows %+v", p.Status)
		}
		return err
	})

	lent := put("web-1", "10.42.2.7", loan.Loan{Home: n.Node, Phase: loan.Asked, Epoch: 10})
	loanIs(t, lent, &loan.Loan{Home: n.Node, Phase: loan.Lent, Epoch: 10})
	change(t, taken, func(s *v1alpha1.BorrowedAddressStatus) { s.Phase = v1alpha1.LoanPhase(loan.Ended) })
	lentAt(0)

	env.Create(t, testenv.APod("web-0").In(ns).On(n.Node).With(reservation.ModeAnnotation, "follow").Pod)
	put("web-0", "10.42.1.7", loan.Loan{Home: "shared-1", Borrower: n.Node, Phase: loan.Lent, Epoch: 10})
	borrows(t, n, owner("web-0"), 10)
	n.update(t, func(tx *persistence.Tx) error { // as the ADD does
		seq, err := tx.NextSeq()
		return errors.Join(err, tx.TakeReservation(owner("web-0")), tx.PutAttachment(reservation.Attachment{
			ID: reservation.AttachmentID{Network: "lan", ContainerID: "c0", IfName: "eth0"}, Owner: owner("web-0"), Since: n.Now(), Seq: seq,
			Addresses: []netip.Addr{netip.MustParseAddr("10.42.1.7")}, Mode: reservation.Follow, Retain: reservation.Forever, Guest: 10,
		}))
	})
	hears()
	if routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: 0x4c}, netlink.RT_FILTER_PROTOCOL); err != nil || len(routes) > 0 {
		t.Errorf("routes %v, %v", routes, err)
	}
}
