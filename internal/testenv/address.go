package testenv

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// FreeAddress returns an address of loopback on which a program may listen until the test ends.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, release, err := reserve()
	if err != nil {
		t.Fatalf("reserve an address: %v", err)
	}
	t.Cleanup(release)
	return address
}

// reserve finds an address of loopback. A socket that is bound to its port at all addresses and does not listen keeps the kernel
// from giving the port to others until the release, and lets a program listen. No connection has the port, at any address: a
// program that listens at all of them could not.
func reserve() (address string, release func(), err error) {
	var all unix.Sockaddr = &unix.SockaddrInet6{}
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		all = &unix.SockaddrInet4{}
		socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a socket: %w", err)
	}
	release = func() { _ = unix.Close(socket) } // nothing was sent
	err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(socket, all)
	}
	var bound unix.Sockaddr
	if err == nil {
		bound, err = unix.Getsockname(socket)
	}
	if err != nil {
		release()
		return "", nil, fmt.Errorf("bind a socket: %w", err)
	}
	port := 0
	switch of := bound.(type) {
	case *unix.SockaddrInet6:
		port = of.Port
	case *unix.SockaddrInet4:
		port = of.Port
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)).String(), release, nil //nolint:gosec // a port
}

// FreePort returns the port of a FreeAddress.
func FreePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
