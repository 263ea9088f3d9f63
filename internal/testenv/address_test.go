package testenv_test

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
)

// TestAFreeAddressIsFreeAtAllAddresses has a program that listens at all of them, as webhooks do: a connection from another
// address of the machine would keep it from that.
func TestAFreeAddressIsFreeAtAllAddresses(t *testing.T) {
	address := netip.MustParseAddrPort(testenv.FreeAddress(t))
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	other := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), address.Port())
	if _, err := (&net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(other)}).DialContext(t.Context(), "tcp", server.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("connect from %s: %v", other, err)
	}
	for _, at := range []string{address.String(), netip.AddrPortFrom(netip.IPv6Unspecified(), address.Port()).String()} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatalf("listen at %s: %v", at, err)
		}
		_ = l.Close()
	}
}
