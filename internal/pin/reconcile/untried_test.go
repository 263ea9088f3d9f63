package reconcile_test

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A pod names a scheduler that does not exist, so that no verdict ever comes. Its nomination
// holds room on the node for five minutes.
func TestAPodOfNoSchedulerLosesItsNomination(t *testing.T) {
	at, elected := clocktesting.NewFakePassiveClock(time.Now()), make(chan struct{})
	close(elected)
	m := newManager(t)
	m.start(t)
	nominator := &controller.Nominator{
		Client: m.GetClient(), Workloads: m.reader, Clock: at, Elected: elected, Events: events.NewFakeRecorder(100),
		Leases: &controller.LeaseMonitor{Live: env.Client, Clock: at},
	}
	node := env.Node(t)
	waiting := recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name).Gated(pin.Gate)
	waiting.Spec.SchedulerName = "no-such-scheduler"
	pod := create(t, waiting)
	look := func(want time.Duration) {
		t.Helper()
		testenv.Eventually(t, func() error { return cachedAs(t, m.GetClient(), pod) })
		result, err := nominator.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		if err != nil || result.RequeueAfter != want {
			t.Fatalf("result %+v, %v, want another look after %s", result, err, want)
		}
	}
	look(0)
	opened(t, pod, node.Name)
	look(5 * time.Minute)
	at.SetTime(at.Now().Add(time.Minute))
	look(4 * time.Minute)
	opened(t, pod, node.Name)
	at.SetTime(at.Now().Add(4 * time.Minute))
	look(0)
	opened(t, pod, "")
}
