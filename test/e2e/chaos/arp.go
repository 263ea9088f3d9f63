package chaos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// asker asks the sandboxes of a node by ARP which of them has an address.
type asker struct {
	socket int
	veths  map[int]net.Interface // by index
}

// askNode asks for addresses in the network namespace of a process, and returns the interfaces that answer, by address.
func askNode(pid int, addrs []netip.Addr, wait time.Duration) (map[netip.Addr][]string, error) {
	a, err := newAsker(pid)
	if err != nil {
		return nil, err
	}
	found, err := a.ask(addrs, wait)
	return found, errors.Join(err, unix.Close(a.socket))
}

// newAsker opens an asker in the network namespace of a process.
func newAsker(pid int) (*asker, error) {
	a := &asker{veths: map[int]net.Interface{}}
	err := inNamespaceOf(pid, func() error {
		all, err := net.Interfaces()
		if err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
		for _, i := range all {
			if strings.HasPrefix(i.Name, "veth") {
				a.veths[i.Index] = i
			}
		}
		a.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(networkOrder(unix.ETH_P_ARP)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open an ARP socket: %w", err)
	}
	return a, nil
}

// ask asks at each interface for each address, and returns the interfaces that answer, by address.
func (a *asker) ask(addrs []netip.Addr, wait time.Duration) (map[netip.Addr][]string, error) {
	found := map[netip.Addr][]string{}
	for _, v := range a.veths {
		for _, addr := range addrs {
			to := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: v.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
			if err := unix.Sendto(a.socket, request(v.HardwareAddr, addr), 0, to); errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENODEV) {
				break // the interface is gone
			} else if err != nil {
				return nil, fmt.Errorf("ask for %s: %w", addr, err)
			}
		}
		a.collect(found, 0)
	}
	for end := time.Now().Add(wait); time.Now().Before(end); {
		a.collect(found, 20*time.Millisecond)
	}
	return found, nil
}

// collect adds the answers that have come, or come within a time.
func (a *asker) collect(found map[netip.Addr][]string, wait time.Duration) {
	for {
		ready := []unix.PollFd{{Fd: int32(a.socket), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
		if n, err := unix.Poll(ready, int(wait.Milliseconds())); err != nil || n == 0 {
			return
		}
		packet := make([]byte, 64)
		n, from, err := unix.Recvfrom(a.socket, packet, unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		addr, answers := answered(packet[:n])
		if !ok || !answers {
			continue
		}
		if name := a.veths[link.Ifindex].Name; name != "" && !slices.Contains(found[addr], name) {
			found[addr] = append(found[addr], name)
		}
	}
}

// request returns a question for an address. It has no sender address, as a host asks before it takes an address: all
// holders answer, and no cache changes.
func request(from net.HardwareAddr, addr netip.Addr) []byte {
	packet := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, from...)
	packet = append(packet, make([]byte, 4+6)...)
	return append(packet, addr.AsSlice()...)
}

// answered returns the address for which a packet is an answer.
func answered(packet []byte) (netip.Addr, bool) {
	if len(packet) < 28 || binary.BigEndian.Uint16(packet[6:]) != 2 {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(packet[14:18])
}

func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// inNamespaceOf runs a function in the network namespace of a process.
func inNamespaceOf(pid int, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			own, err := netns.Get()
			if err != nil {
				return fmt.Errorf("open own network namespace: %w", err)
			}
			defer own.Close()
			other, err := netns.GetFromPid(pid)
			if err != nil {
				return fmt.Errorf("open network namespace of process %d: %w", pid, err)
			}
			defer other.Close()
			if err := netns.Set(other); err != nil {
				return fmt.Errorf("enter network namespace of process %d: %w", pid, err)
			}
			err = do()
			if back := netns.Set(own); back != nil { // the thread ends with this goroutine
				return errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
			}
			runtime.UnlockOSThread()
			return err
		}()
	}()
	return <-result
}
