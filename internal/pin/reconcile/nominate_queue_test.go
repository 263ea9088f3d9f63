package reconcile_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A tenant's gated pods delay the pods of no other namespace, whether the pods are bare, name
// a workload, or are seen again.
func TestGatesOfOneTenantDelayNoOther(t *testing.T) {
	const flood = 3000
	bare := func(ns string, i int) testenv.Pod {
		return testenv.APod(fmt.Sprint("bare-", i)).In(ns).Gated(pin.Gate)
	}
	owned := func(ns string, i int) testenv.Pod {
		set := testenv.AStatefulSet("web", flood).In(ns)
		set.UID = "web"
		return testenv.APod(fmt.Sprint("web-", i)).In(ns).OwnedBy(set.StatefulSet).With(pin.AnnotationNode, "node").Gated(pin.Gate)
	}
	cases := map[string]func(ns string, i int) testenv.Pod{
		"bare pods":            bare,
		"pods of a workload":   owned,
		"some of each kind":    func(ns string, i int) testenv.Pod { return []func(string, int) testenv.Pod{bare, owned}[i%2](ns, i) },
		"bare pods, annotated": func(ns string, i int) testenv.Pod { return bare(ns, i).With(pin.AnnotationNode, "node") },
	}
	for name, flooding := range cases {
		t.Run(name, func(t *testing.T) {
			queue := controller.GateQueue("", workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			t.Cleanup(queue.ShutDown)
			handler := controller.GateHandler()
			create := func(pod testenv.Pod) { handler.Create(t.Context(), event.CreateEvent{Object: pod.Pod}, queue) }
			for i := range flood {
				create(flooding("tenant", i))
			}
			create(owned("shop", 0))
			testenv.Eventually(t, func() error {
				if queue.Len() != flood+1 {
					return fmt.Errorf("%d pods wait", queue.Len())
				}
				return nil
			})
			for before := 0; ; before++ {
				req, _ := queue.Get()
				queue.Done(req)
				if req.Namespace == "shop" {
					break
				}
				if before >= 1 {
					t.Fatal("more than one pod of the tenant came before another namespace's pod")
				}
			}
		})
	}
}

// In a namespace, pods that the webhook has pinned come before all others.
func TestPinnedPodsOfANamespaceComeFirst(t *testing.T) {
	queue := controller.GateQueue("", workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	set := testenv.AStatefulSet("web", 1).In("shop")
	set.UID = "web"
	pinned := testenv.APod("web-0").In("shop").OwnedBy(set.StatefulSet).With(pin.AnnotationNode, "node").Gated(pin.Gate)
	for i := range 10 {
		controller.GateHandler().Create(t.Context(), event.CreateEvent{Object: testenv.APod(fmt.Sprint("bare-", i)).In("shop").Gated(pin.Gate).Pod}, queue)
	}
	controller.GateHandler().Create(t.Context(), event.CreateEvent{Object: pinned.Pod}, queue)
	if req, _ := queue.Get(); req.Name != pinned.Name {
		t.Errorf("pod %s comes first, want %s", req.Name, pinned.Name)
	}
}
