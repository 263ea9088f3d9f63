package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	controller "github.com/limpet-io/limpet/internal/rollout/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A pod that returns to its node waits for the limit first. Its node is nominated when it may
// start, so that it holds no room before.
func TestAPodUnderALimitReturnsToItsNode(t *testing.T) {
	mgr := newManager(t, controller.Needs(), pincontroller.Needs(), workloads.Needs("limpet-system"))
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	reader := &workloads.Reader{
		Registry: workloads.NewRegistry(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Scales: mgr.GetClient(), Namespaces: []string{"limpet-system"},
	}
	watcher := &workloads.Watcher{
		Registry: reader.Registry, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: reader.Namespaces,
		Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: mgr.Elected(),
	}
	nominator := &pincontroller.Nominator{
		Client: mgr.GetClient(), Workloads: reader, Clock: clock.RealClock{}, Elected: mgr.Elected(), Events: mgr.GetEventRecorder("limpet-controller"),
		Leases: &pincontroller.LeaseMonitor{Live: mgr.GetAPIReader(), Clock: clock.RealClock{}},
	}
	for _, r := range []interface{ SetupWithManager(ctrl.Manager) error }{watcher, nominator} {
		if err := r.SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
	}
	run(t, mgr)
	env.Start(t, mgr)
	node := env.Node(t)
	set := aSet(t, 2, with(limitOf, "1"))
	env.Create(t, testenv.APersistentPodState("web").In(set.Namespace).Prefers(100, corev1.LabelHostname).
		Recorded("web-0", node.Name, nil).Recorded("web-1", node.Name, nil).PersistentPodState)
	returns := func(ordinal int) *corev1.Pod {
		return create(t, testenv.APod(fmt.Sprint("web-", ordinal)).In(set.Namespace).OwnedBy(set).With(pin.AnnotationNode, node.Name).Gated(pinGate, gate))
	}
	first := returns(0)
	nominated(t, first, node.Name)
	second := returns(1)
	ready(t, first)
	nominated(t, second, node.Name)
}

// nominated waits until a pod has no gate, and its node is nominated.
func nominated(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(pod), pod)
		if len(pod.Spec.SchedulingGates) > 0 && pod.Status.NominatedNodeName != "" && len(pod.Spec.SchedulingGates) != 1 {
			t.Errorf("pod %s is nominated behind the gates %v", pod.Name, gatesOf(pod))
		}
		if len(pod.Spec.SchedulingGates) > 0 || pod.Status.NominatedNodeName != node {
			return fmt.Errorf("gates %v, nominated %q", gatesOf(pod), pod.Status.NominatedNodeName)
		}
		return nil
	})
}
