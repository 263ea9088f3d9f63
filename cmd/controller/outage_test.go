package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// relayed runs a replica that reaches the API server through a relay of its own.
func relayed(t *testing.T) (*replica, *testenv.Relay) {
	t.Helper()
	relay := env.Relay(t)
	return startReplicaWith(t, env.KubeconfigThrough(t, testenv.ControllerUser, relay)), relay
}

func leaseOf(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	var lease coordinationv1.Lease
	env.Read(t, client.ObjectKey{Namespace: "limpet-system", Name: leaseName}, &lease)
	return &lease
}

// generated makes a StatefulSet that asks for a PersistentPodState, and waits until the leader
// has made it.
func generated(t *testing.T) {
	t.Helper()
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t)).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	testenv.Eventually(t, func() error {
		_, err := env.State(t, set)
		return err
	})
}

// ended reports whether a replica's process has ended.
func (r *replica) ended() bool { return syscall.Kill(r.cmd.Process.Pid, 0) != nil || r.zombie() }

func (r *replica) zombie() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	if err != nil {
		return true
	}
	var pid int
	var name, state string
	_, err = fmt.Sscanf(string(text), "%d %s %s", &pid, &name, &state)
	return err != nil || state == "Z"
}

// The API server is out of reach of both replicas for longer than the Lease of the leader holds,
// and of a third one that starts then. None ends, and the same one leads afterwards.
func TestAnOutageOfTheAPIServerEndsNoReplica(t *testing.T) {
	install(t)
	first, firstRelay := relayed(t)
	pointWebhooksAt(t, first)
	first.waitReady(t)
	testenv.Eventually(t, func() error {
		if !first.leads(t) {
			return errors.New("the only replica does not lead")
		}
		return nil
	})
	second, secondRelay := relayed(t)
	second.waitReady(t)
	generated(t)
	before := leaseOf(t)

	firstRelay.Cut()
	secondRelay.Cut()
	late, lateRelay := relayed(t)
	lateRelay.Cut()
	testenv.Eventually(t, func() error {
		if age := time.Since(leaseOf(t).Spec.RenewTime.Time); age < 20*time.Second {
			return fmt.Errorf("the Lease was renewed %s ago", age)
		}
		return nil
	})
	if first.leads(t) {
		t.Error("the leader may write although its Lease is over")
	}
	firstRelay.Mend(t)
	secondRelay.Mend(t)
	lateRelay.Mend(t)

	testenv.Eventually(t, func() error {
		if !first.leads(t) {
			return errors.New("the leader does not lead again")
		}
		return nil
	})
	generated(t)
	late.waitReady(t)
	after := leaseOf(t)
	if *after.Spec.HolderIdentity != *before.Spec.HolderIdentity || *after.Spec.LeaseTransitions != *before.Spec.LeaseTransitions {
		t.Errorf("Lease %+v, want the holder of %+v without a transition", after.Spec, before.Spec)
	}
	for name, r := range map[string]*replica{"the leader": first, "the other": second, "the one that started in the outage": late} {
		if status, err := r.ask(t, "/healthz"); r.ended() || err != nil || status != 200 {
			t.Errorf("%s: ended %t, healthz %d, %v", name, r.ended(), status, err)
		}
	}
}

// Only the leader is cut off. The other replica takes over, and the former leader, when it is back,
// writes nothing more and ends.
func TestALeaderThatWasReplacedEnds(t *testing.T) {
	install(t)
	first, relay := relayed(t)
	pointWebhooksAt(t, first)
	first.waitReady(t)
	second, _ := relayed(t)
	second.waitReady(t)
	testenv.Eventually(t, func() error {
		if !first.leads(t) {
			return errors.New("the first replica does not lead")
		}
		return nil
	})
	relay.Cut()
	pointWebhooksAt(t, second)
	testenv.Eventually(t, func() error {
		if !second.leads(t) {
			return errors.New("the other replica does not lead")
		}
		return nil
	})
	if first.leads(t) {
		t.Error("two replicas lead at a time")
	}
	generated(t)
	relay.Mend(t)
	testenv.Eventually(t, func() error {
		if !first.ended() {
			return errors.New("the former leader runs")
		}
		return nil
	})
	generated(t)
}
