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

// NetNSDir is where runtimes bind network namespaces.
const NetNSDir = "/var/run/netns"

// Interface is a network interface in a network namespace, with the addresses that are
// of use outside of its link.
type Interface struct {
	NetNS     reservation.NetNS
	Name      string
	Addresses []netip.Addr
}

// Interfaces returns those of every network namespace that is bound in dir. What is not
// a namespace, or goes meanwhile, is left out.
func Interfaces(dir string) []Interface {
	all := make(chan []Interface)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends in a foreign namespace, with this goroutine
		var found []Interface
		entries, _ := os.ReadDir(dir) // nothing is bound in a directory that is not there
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

// enter moves the thread into the namespace bound to a path, and looks around.
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
			if err == nil && p.Addr().IsGlobalUnicast() && !slices.Contains(i.Addresses, p.Addr()) { // or it is there twice, with two masks
				i.Addresses = append(i.Addresses, p.Addr())
			}
		}
		if len(i.Addresses) > 0 {
			all = append(all, i)
		}
	}
	return all, nil
}
