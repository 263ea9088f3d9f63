package cniexec

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// NetNS is a network namespace without any address. limpet-ipam hands out no address that its machine uses, and a
// machine that runs tests may use any.
type NetNS struct{ file *os.File }

// NewNetNS makes a network namespace, which lasts until the process ends.
func NewNetNS() (n NetNS, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return n, err
}

// OpenNetNS opens a network namespace that has a name.
func OpenNetNS(path string) (n NetNS, err error) {
	n.file, err = os.Open(path)
	return n, err
}

// Close forgets the namespace; what runs in it stays.
func (n NetNS) Close() error { return n.file.Close() }

// In runs fn, and the processes that it starts, inside the namespace.
func (n NetNS) In(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return fn()
	})
}

// onThread runs fn on a thread that ends with it.
func onThread(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in another namespace and ends with this goroutine
		done <- fn()
	}()
	return <-done
}
