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

// While pods come and go, the state of each node agrees with what runs there, and
// compacting it disturbs nobody. limpet-ipam check fails where it does not.
func TestTheStateAgreesWithWhatRuns(t *testing.T) {
	apply(t, set("agreed", 6, retain, "10"))
	before := pods(t, "agreed", 6)
	sound(t)
	var looking sync.WaitGroup
	var enough atomic.Bool
	rounds := 0
	looking.Go(func() {
		for ; !enough.Load(); rounds++ {
			sound(t)
			onEachNode(t, "compact")
		}
	})
	t.Cleanup(func() { enough.Store(true); looking.Wait() })
	for range 3 {
		kubectl(t, "delete", "pod", "-l", "app=agreed")
		after := pods(t, "agreed", 6)
		sameHomes(t, before, after)
		before = after
	}
	enough.Store(true)
	looking.Wait()
	if rounds < 3 {
		t.Errorf("looked %d times only", rounds)
	}
	sound(t)
}

// sound checks the state of every node.
func sound(t *testing.T) {
	t.Helper()
	onEachNode(t, "check")
}

func onEachNode(t *testing.T, command string) {
	t.Helper()
	for _, node := range theBed.Cluster.Nodes() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		out, err := theBed.Cluster.Exec(ctx, node, tool, command)
		cancel()
		if err != nil && !strings.Contains(err.Error(), "no state was created yet") {
			t.Errorf("%s on %s: %v\n%s", command, node, err, out)
		}
	}
}

// A reservation that is released by hand is free, and its IPReservation goes.
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
	await(t, 30*time.Second, "its IPReservation to go", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "ipreservations", "-o", "jsonpath={range .items[?(@.status.pod=='freed-0')]}{.status.state}{end}")
		return err == nil && out == "", out
	})
}
