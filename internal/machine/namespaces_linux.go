package machine

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// NetNSDir is the directory in which container runtimes bind network namespaces.
const NetNSDir = "/var/run/netns"

// Interface is a network interface in a network namespace, with its global unicast
// addresses.
type Interface struct {
	NetNS     reservation.NetNS
	Name      string
	Addresses []netip.Addr
}

// Interfaces returns the interfaces of all network namespaces that are bound in dir. Files
// that are no namespaces, or are removed meanwhile, are skipped.
func Interfaces(dir string) []Interface {
	all := make(chan []Interface)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in another namespace and ends with this goroutine
		var found []Interface
		entries, _ := os.ReadDir(dir) // a missing directory holds no namespaces
		for _, e := range entries {
			inside, err := enter(filepath.Join(dir, e.Name()))
			if err == nil {
				found = append(found, inside...)
			}
		}
		all <- found
	}()
	return <-all
}

// enter moves the calling thread into the namespace at path and lists its interfaces.
func enter(path string) ([]Interface, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter namespace: %w", err)
	}
	netns, found := StatNetNS(path)
	links, err := net.Interfaces()
	if err != nil || !found {
		return nil, err
	}
	var all []Interface
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil {
			return nil, err
		}
		i := Interface{NetNS: netns, Name: l.Name}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().IsGlobalUnicast() && !slices.Contains(i.Addresses, p.Addr()) { // an address can be there twice, with two masks
				i.Addresses = append(i.Addresses, p.Addr())
			}
		}
		if len(i.Addresses) > 0 {
			all = append(all, i)
		}
	}
	return all, nil
}
