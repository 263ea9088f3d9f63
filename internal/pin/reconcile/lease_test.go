package reconcile_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A tenant chooses no name of a Lease to read, and pods that return to one node at once
// cost one read.
func TestLeasesAreReadForRecordedNodesOnly(t *testing.T) {
	m := newManager(t)
	live, traffic := env.Observe(t)
	nominator := m.nominator()
	nominator.Leases.Live, nominator.Leases.Clock = live, clocktesting.NewFakePassiveClock(time.Now()) // which stands still
	m.start(t, nominator)
	node, home := silentSince(t, time.Now()), silentSince(t, time.Now())
	ns := env.Namespace(t)
	forged := []testenv.Pod{
		testenv.APod("bare").In(ns).With(pin.AnnotationNode, node.Name),
		recordedPod(t, home.Name).With(pin.AnnotationNode, node.Name),
		recordedPod(t, "no-such-node").With(pin.AnnotationNode, "no-such-node"),
		recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name).Gated("example.com/own"),
	}
	for _, pod := range forged[:3] {
		opened(t, create(t, pod.Gated(pin.Gate)), "")
	}
	create(t, forged[3].Gated(pin.Gate))
	for range 5 {
		opened(t, gatedFor(t, home.Name, pin.Gate), home.Name)
	}
	if n := traffic.Count("/leases/"); n != 1 {
		t.Errorf("%d reads of leases, want one of %s", n, home.Name)
	}
	if n := traffic.Count("/leases/" + home.Name); n != 1 {
		t.Errorf("%d reads of the lease of %s, want one", n, home.Name)
	}
}

// A lease that is read again is as old as it looks, whatever was remembered of it.
func TestARenewalIsRememberedWhileItIsYoung(t *testing.T) {
	live, traffic := env.Observe(t)
	at := clocktesting.NewFakePassiveClock(time.Now())
	node := silentSince(t, at.Now().Add(-10*time.Second)) // overdue after 15 seconds
	leases := &controller.LeaseMonitor{Live: live, Clock: at}
	look := func(after time.Duration, wantOverdue bool, wantReads int) {
		t.Helper()
		at.SetTime(at.Now().Add(after))
		overdue, err := leases.Overdue(t.Context(), node.Name)
		if err != nil {
			t.Fatal(err)
		}
		if n := traffic.Count("/leases/"); overdue != wantOverdue || n != wantReads {
			t.Errorf("overdue %t after %d reads, want %t after %d", overdue, n, wantOverdue, wantReads)
		}
	}
	look(0, false, 1)
	look(4*time.Second, false, 1)
	look(2*time.Second, true, 2)
	look(time.Second, true, 3) // until a renewal, each time
	renew(t, node.Name, at.Now())
	look(0, false, 4)
	look(9*time.Second, false, 4)
	look(2*time.Second, false, 5) // the lease may be gone by now
}

// A controller whose clock is behind sees that a node is silent: it has seen one renewal for too long. A later one proves
// that the node is alive.
func TestALeaseIsOverdueByAClockThatIsBehind(t *testing.T) {
	live, _ := env.Observe(t)
	at := clocktesting.NewFakePassiveClock(time.Now())
	node := silentSince(t, at.Now().Add(time.Hour))
	leases := &controller.LeaseMonitor{Live: live, Clock: at}
	for i, want := range []bool{false, false, true, true} { // after 0, 10, 20 and 30 s; it is overdue after 15 s
		overdue, err := leases.Overdue(t.Context(), node.Name)
		if err != nil || overdue != want {
			t.Errorf("after %d s: overdue %t, %v; want %t", 10*i, overdue, err, want)
		}
		at.SetTime(at.Now().Add(10 * time.Second))
	}
	renew(t, node.Name, at.Now().Add(time.Hour))
	if overdue, err := leases.Overdue(t.Context(), node.Name); err != nil || overdue {
		t.Errorf("after a renewal: overdue %t, %v", overdue, err)
	}
}
