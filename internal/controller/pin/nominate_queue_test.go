package pin_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/pin"
)

// A tenant's gated pods delay the pods of no other namespace, whether the pods are bare, name
// a workload, or are seen again.
func TestGatesOfOneTenantDelayNoOther(t *testing.T) {
	const flood, step = 3000, 32
	bare := func(ns string, i int) testenv.Pod {
		return testenv.APod(fmt.Sprint("bare-", i)).In(ns).Gated(pin.Gate)
	}
	owned := func(ns string, i int) testenv.Pod {
		set := testenv.AStatefulSet("web", flood).In(ns)
		set.UID = "web"
		return testenv.APod(fmt.Sprint("web-", i)).In(ns).OwnedBy(set.StatefulSet).With(pin.AnnotationNode, "node").Gated(pin.Gate)
	}
	cases := map[string]struct {
		flood  func(ns string, i int) testenv.Pod
		before int // pods of the tenant that may come before the other namespace's pod
	}{
		"bare pods":            {bare, 0},
		"pods of a workload":   {owned, step},
		"some of each kind":    {func(ns string, i int) testenv.Pod { return []func(string, int) testenv.Pod{bare, owned}[i%2](ns, i) }, step},
		"bare pods, annotated": {func(ns string, i int) testenv.Pod { return bare(ns, i).With(pin.AnnotationNode, "node") }, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			queue := priorityqueue.New[ctrl.Request]("test", func(o *priorityqueue.Opts[ctrl.Request]) {
				o.RateLimiter = workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]()
			})
			t.Cleanup(queue.ShutDown)
			handler, begin := controller.NewGateQueue()
			create := func(pod testenv.Pod) { handler.Create(t.Context(), event.CreateEvent{Object: pod.Pod}, queue) }
			for i := range flood {
				create(tc.flood("tenant", i))
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
				begin(req)
				if req.Namespace == "shop" {
					break
				}
				if before >= tc.before {
					t.Fatalf("more than %d pods of the tenant came before another namespace's pod", tc.before)
				}
			}
		})
	}
}
