package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
)

// outlined are needs of pods. Whole pods are not packed.
func outlined(whole bool) cluster.Needs {
	if whole {
		return cluster.Needs{Objects: []cluster.Need{cluster.Of[*corev1.Pod]()}, Indexes: []cluster.Index{cluster.By("none", func(*corev1.Pod) []string { return nil })}}
	}
	return cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Gates, cluster.OwnAnnotations, func(from, to *corev1.Pod) {
		to.Spec.NodeName = from.Spec.NodeName
	})}, Indexes: []cluster.Index{cluster.PodsByNode()}}
}

// three are a bound pod, a gated one, and one with two annotations. All have the namespace as an annotation.
func three(t *testing.T, ns string) {
	t.Helper()
	env.Create(t,
		testenv.APod("gated").In(ns).With("limpet.dev/"+ns, "yes").Gated("limpet.dev/pin").Pod,
		testenv.APod("bound").In(ns).With("limpet.dev/"+ns, "yes").On("outline").Pod,
		testenv.APod("noted").In(ns).With("limpet.dev/"+ns, "yes").With("limpet.dev/shade", "dark").Pod)
}

// Each way in which the cache holds a pod has the same outline.
func TestAnOutlineTellsOfThePod(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole %t", whole), func(t *testing.T) {
			ns := env.Namespace(t)
			three(t, ns)
			c := cached(t, outlined(whole))
			var got []string
			informer, err := c.GetInformer(t.Context(), &corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			look := func(o cluster.Outline) bool {
				if o.Annotated("limpet.dev/" + ns) {
					got = append(got, fmt.Sprint(o.Bound(), o.Ending(), len(o.Gates()), o.Annotated("limpet.dev/shade"), o.Annotated("dark")))
				}
				return false
			}
			begun, err := informer.AddEventHandler(cluster.Beginning(look, toolscache.ResourceEventHandlerFuncs{}))
			if err != nil || !toolscache.WaitForCacheSync(t.Context().Done(), begun.HasSynced) {
				t.Fatalf("begin with the pods: %v", err)
			}
			slices.Sort(got)
			want := []string{"false false 0 true false", "false false 1 false false", "true false 0 false false"}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// A controller that begins beside 150 000 pods handles the few that it chooses, and each change of
// the others.
func TestAHandlerBeginsWithChosenPods(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole %t", whole), func(t *testing.T) {
			ns := env.Namespace(t)
			three(t, ns)
			c := cached(t, outlined(whole))
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			chosen := func(o cluster.Outline) bool { return o.Annotated("limpet.dev/"+ns) && len(o.Gates()) > 0 }
			events := cluster.PodEvents(c, chosen, &handler.EnqueueRequestForObject{}).(source.SyncingSource)
			if err := events.Start(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
			if err := events.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []string
			next := func(n int) {
				testenv.Eventually(t, func() error {
					for queue.Len() > 0 {
						req, _ := queue.Get()
						queue.Done(req)
						got = append(got, req.Name)
					}
					if len(got) < n {
						return fmt.Errorf("%d pods are handled, want %d", len(got), n)
					}
					return nil
				})
			}
			next(1)
			bound := &corev1.Pod{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "bound"}, bound); err != nil {
				t.Fatal(err)
			}
			env.Patch(t, bound, `{"metadata":{"annotations":{"limpet.dev/changed":"yes"}}}`)
			next(2)
			env.Create(t, testenv.APod("late").In(ns).Pod)
			next(3)
			if want := []string{"gated", "bound", "late"}; !slices.Equal(got, want) {
				t.Errorf("handled %q, want %q", got, want)
			}
		})
	}
}
