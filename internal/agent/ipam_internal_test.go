package agent

import (
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// TestWhatDropsStaysWhileTheKernelDoesNotTell asks the kernel without the right to.
func TestWhatDropsStaysWhileTheKernelDoesNotTell(t *testing.T) {
	a := &Agent{Config: Config{ConfDir: t.TempDir(), OwnNetwork: true, Log: logr.Discard()}, metrics: newMetrics(prometheus.NewRegistry())}
	a.ipam.Store(&plan.NodeIPAM{By: plan.IPAMUnknown, Drops: "filter FORWARD"})
	withoutNetAdmin(t)
	if err := a.findIPAM(); err == nil {
		t.Error("no error")
	}
	if is := a.ipam.Load(); is.Drops != "filter FORWARD" {
		t.Errorf("the network is %+v, want what dropped packets before", is)
	}
}

// withoutNetAdmin takes a right from the thread of the test until the test ends.
func withoutNetAdmin(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all, less [2]unix.CapUserData
	if err := unix.Capget(&header, &all[0]); err != nil {
		t.Fatal(err)
	}
	less = all
	less[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	if err := unix.Capset(&header, &less[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Capset(&header, &all[0]); err != nil {
			t.Fatal(err) // the thread stays locked and ends with its goroutine
		}
		runtime.UnlockOSThread()
	})
}
