package agent

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAnAnswerToNoRule makes rules without the right to. The kernel refuses them as one, with an answer to their beginning: the
// agent must not wait for another.
func TestAnAnswerToNoRule(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	s, err := openNFT()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := applyGuestRules(s, nil, netip.Prefix{}); err != nil {
		t.Error(err)
	}
	if err := applyGuestRules(s, []netip.Addr{netip.MustParseAddr("10.41.1.7")}, netip.MustParsePrefix("10.41.0.0/16")); !errors.Is(err, unix.EPERM) || errors.Is(err, unix.EAGAIN) {
		t.Errorf("error %v, want no right, and no time that is over", err)
	}
}
