package machine_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/machine"
)

// wire is an interface whose other end is a pod.
func wire(t *testing.T) (pod *netlink.Handle, end netlink.Link, in func(func() error) error) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: thread and namespaces end with the test
	there, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	here, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(there.Close(), here.Close()) })
	if pod, err = netlink.NewHandleAt(there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pod.Close)
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "pod", PeerNamespace: netlink.NsFd(there)}
	if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link)); err != nil {
		t.Fatal(err)
	}
	if end, err = pod.LinkByName("pod"); err == nil {
		err = pod.LinkSetUp(end)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod, end, func(fn func() error) error { // there
		return errors.Join(netns.Set(there), fn(), netns.Set(here))
	}
}

// TestToAskDoesNoHarm asks for an address while its pod looks whether another machine has it, as bridge has it do with enabledad:
// the pod must not take the question for another machine's.
func TestToAskDoesNoHarm(t *testing.T) {
	pod, end, _ := wire(t)
	a := netip.MustParseAddr("fd00:1::5")
	if err := pod.AddrAdd(end, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(64, 128)}}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < time.Minute; { // the pod looks for two seconds, on a busy machine for longer
		macs, err := machine.Ask("lan", []netip.Addr{a})
		if err != nil {
			t.Fatal(err)
		}
		if macs[a].String() == end.Attrs().HardwareAddr.String() {
			return
		}
	}
	addrs, err := pod.AddrList(end, netlink.FAMILY_V6)
	for _, has := range addrs {
		t.Logf("%s: duplicate %v", has.IP, has.Flags&unix.IFA_F_DADFAILED != 0)
	}
	t.Fatalf("the pod does not answer, %v", err)
}

// TestAFloodHidesNoAnswer sends more than a socket keeps: an answer that finds no room is lost, and the address counts as free.
func TestAFloodHidesNoAnswer(t *testing.T) {
	_, end, inPod := wire(t)
	a := netip.MustParseAddr("fd00:1::5")
	unread, err := machine.Unread("lan", a, func() error {
		return inPod(func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			data := make([]byte, 1400)
			data[0], data[6], data[7] = 0x60, unix.IPPROTO_UDP, 64
			to := &unix.SockaddrLinklayer{Protocol: 0xdd86, Ifindex: end.Attrs().Index, Halen: 6, Addr: [8]byte{0x33, 0x33, 5: 1}}
			return unix.Sendto(fd, data, 0, to)
		})
	})
	if err != nil || unread {
		t.Errorf("the socket keeps what is no answer: %v, %v", unread, err)
	}
}
