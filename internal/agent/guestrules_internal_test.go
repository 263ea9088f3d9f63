package agent

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

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
	began := time.Now()
	if err := applyGuestRules(s, nil, netip.Prefix{}); err != nil {
		t.Error(err)
	}
	if err := applyGuestRules(s, []netip.Addr{netip.MustParseAddr("10.41.1.7")}, netip.MustParsePrefix("10.41.0.0/16")); err == nil {
		t.Error("there are rules")
	}
	if took := time.Since(began); took >= 5*time.Second {
		t.Errorf("the answers took %s", took)
	}
}
