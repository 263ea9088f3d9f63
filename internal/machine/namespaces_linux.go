package machine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

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

// Interfaces returns the interfaces of all network namespaces that are bound in dir. Files that are no namespaces, or are
// removed meanwhile, are skipped. With an error it returns what it could look at: other namespaces have addresses too. Of a kernel
// that does not answer in time it returns os.ErrDeadlineExceeded alone.
func Interfaces(dir string) (found []Interface, err error) {
	type answer struct {
		found []Interface
		err   error
	}
	a, inTime := within(allBound, func() (a answer) {
		a.found, a.err = interfaces(dir)
		return a
	})
	if !inTime {
		return nil, fmt.Errorf("look into the network namespaces of %s: %w", dir, os.ErrDeadlineExceeded)
	}
	return a.found, a.err
}

// interfaces moves the calling thread into each namespace.
func interfaces(dir string) (found []Interface, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // no namespaces
	}
	for _, e := range entries {
		inside, _, enterErr := enter(filepath.Join(dir, e.Name()))
		if enterErr == nil {
			found = append(found, inside...)
		} else if !gone(enterErr) {
			err = errors.Join(err, enterErr)
		}
	}
	return found, err
}

// gone reports whether an error proves that there is no network namespace at a path.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL)
}

// Inside returns the addresses in all network namespaces that are bound in dir, as far as it could look at them.
func Inside(dir string) (all []netip.Addr, err error) {
	found, err := Interfaces(dir)
	for _, i := range found {
		all = append(all, i.Addresses...)
	}
	return all, err
}

// lookBound bounds how long HasAddress waits for the kernel, and allBound how long Interfaces does: other verbs wait meanwhile.
const lookBound, allBound = 2 * time.Second, 5 * time.Second

// within returns what a look into namespaces finds, on a thread of its own, or false when the kernel does not answer in time.
func within[T any](bound time.Duration, look func() T) (found T, inTime bool) {
	done := make(chan T, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in another namespace and ends with this goroutine
		done <- look()
	}()
	select {
	case found = <-done:
		return found, true
	case <-time.After(bound): //nolint:forbidigo // it bounds a call into the kernel, and no decision depends on the time
		return found, false
	}
}

// HasAddress reports whether an interface in a network namespace has one of the addresses. A
// namespace that cannot be read in time counts as having them. A path that leads to another
// namespace by now, or to none, does not.
func HasAddress(ns reservation.NetNS, addrs []netip.Addr) bool {
	has, inTime := within(lookBound, func() bool {
		inside, is, err := enter(ns.Path)
		switch {
		case gone(err), err == nil && is != ns:
			return false
		case err != nil:
			return true
		}
		return slices.ContainsFunc(inside, func(i Interface) bool {
			return slices.ContainsFunc(i.Addresses, func(a netip.Addr) bool { return slices.Contains(addrs, a) })
		})
	})
	return has || !inTime
}

// enter moves the calling thread into the namespace at path, and returns the interfaces of the
// namespace and its numbers.
func enter(path string) ([]Interface, reservation.NetNS, error) {
	var netns reservation.NetNS
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, netns, fmt.Errorf("open namespace: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, netns, fmt.Errorf("look at namespace: %w", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return nil, netns, fmt.Errorf("enter namespace: %w", err)
	}
	netns = reservation.NetNS{Path: path, Dev: st.Dev, Inode: st.Ino}
	all, err := interfacesIn(netns)
	return all, netns, err
}

// interfacesIn lists the interfaces of the namespace in which the calling thread is.
func interfacesIn(netns reservation.NetNS) ([]Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
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
