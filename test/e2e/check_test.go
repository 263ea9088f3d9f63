package e2e_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const tool = "/opt/cni/bin/limpet-ipam"

// TestTheStateAgreesWithWhatRuns runs limpet-ipam check and compact on every node while pods
// are rebuilt. check fails when the state file and the running sandboxes disagree.
func TestTheStateAgreesWithWhatRuns(t *testing.T) {
	apply(t, set("agreed", 6, retain, "10"))
	before := pods(t, "agreed", 6)
	checkStates(t)
	var looking sync.WaitGroup
	var enough atomic.Bool
	rounds := 0
	looking.Go(func() {
		for ; !enough.Load(); rounds++ {
			checkStates(t)
			onEachNode(t, "compact")
		}
	})
	t.Cleanup(func() { enough.Store(true); looking.Wait() })
	for range 3 {
		kubectl(t, "delete", "pod", "-l", "app=agreed")
		after := pods(t, "agreed", 6)
		kept(t, before, after)
		before = after
	}
	enough.Store(true)
	looking.Wait()
	if rounds < 3 {
		t.Errorf("checked %d times only", rounds)
	}
	checkStates(t)
}

// checkStates runs limpet-ipam check on every node.
func checkStates(t *testing.T) {
	t.Helper()
	onEachNode(t, "check")
}

func onEachNode(t *testing.T, command string) {
	t.Helper()
	for _, node := range theBed.Cluster.Nodes() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		out, err := theBed.Cluster.Exec(ctx, node, tool, command)
		cancel()
		if err != nil && !strings.Contains(err.Error(), "no state was created yet") {
			t.Errorf("%s on %s: %v\n%s", command, node, err, out)
		}
	}
}

// TestAReservationIsReleasedByHand checks that limpet-ipam release frees a reservation, whose
// IPReservation is then deleted.
func TestAReservationIsReleasedByHand(t *testing.T) {
	apply(t, set("freed", 1, retain, "10"))
	pod := pods(t, "freed", 1)["freed-0"]
	if out, err := theBed.Cluster.Exec(t.Context(), pod.Spec.NodeName, tool, "release", "default/freed-0"); err == nil {
		t.Fatalf("a running pod's address was released: %s", out)
	}
	kubectl(t, "scale", "statefulset", "freed", "--replicas=0")
	await(t, time.Minute, "the address to be released", func(ctx context.Context) (bool, string) {
		out, err := theBed.Cluster.Exec(ctx, pod.Spec.NodeName, tool, "release", "default/freed-0")
		if err != nil {
			return false, err.Error() // the pod still ends
		}
		return true, string(out)
	})
	await(t, time.Minute, "its IPReservation to go", func(ctx context.Context) (bool, string) {
		out, err := shownState(ctx, "freed-0")
		return err == nil && out == "", out
	})
}
