package guard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	admissionapi "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// replica is a guard with caches of its own.
func replica(t *testing.T) (*guard.Handler, client.Reader) {
	t.Helper()
	return replicaWith(t, cluster.CacheOptions(needs()...), nil)
}

// noKindHeld waits for the registry: a further cache cannot hold the kinds that a test before had served.
func noKindHeld(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if held := registry.Held(); len(held) > 0 {
			return fmt.Errorf("the registry has %v", held)
		}
		return nil
	})
}

// replicaWith is a replica with a cache of its own kind, and a client that reads past it; nil
// for that of the manager.
func replicaWith(t *testing.T, objects cache.Options, live client.Reader) (*guard.Handler, client.Reader) {
	t.Helper()
	noKindHeld(t)
	mgr := env.NewManager(t, objects)
	if live == nil {
		live = mgr.GetAPIReader()
	}
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs()...); err != nil {
		t.Fatal(err)
	}
	if err := cluster.HoldAll(t.Context(), mgr.GetCache(), needs()...); err != nil {
		t.Fatal(err)
	}
	handler := handlerOf(mgr, live)
	env.Start(t, mgr)
	mgr.GetCache().WaitForCacheSync(t.Context())
	return handler, mgr.GetCache()
}

// Of twenty evictions at a time, which two replicas judge, the last unit is given to one.
func TestTwoReplicasGiveTheLastUnitOnce(t *testing.T) {
	var replicas []*guard.Handler
	var caches []client.Reader
	for range 2 {
		handler, cached := replica(t)
		replicas, caches = append(replicas, handler), append(caches, cached)
	}
	var turn atomic.Int32
	install(t, admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		return replicas[turn.Add(1)%2].Handle(ctx, req)
	}))
	ns := env.Namespace(t, policyv1beta1.LabelBudgets, policyv1beta1.LabelBudgetsClosed) // an open one lets a pod go after a late answer
	_, pods := web(t, ns, 20, intstr.FromInt32(1))
	for _, cached := range caches {
		for _, pod := range pods {
			known(t, cached, pod)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed, others := 0, []error(nil)
	for _, pod := range pods {
		wg.Go(func() {
			err := evictAs(t.Context(), env.Client, pod)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				passed++
			case !apierrors.IsTooManyRequests(err):
				others = append(others, err)
			}
		})
	}
	wg.Wait()
	if passed != 1 || len(others) > 0 {
		t.Errorf("%d evictions passed, want one; other errors: %v", passed, others)
	}
}

// call asks a guard about the deletion of a pod, as the API server does.
func call(t *testing.T, h *guard.Handler, pod *corev1.Pod) admission.Response {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Delete, Namespace: pod.Namespace, OldObject: runtime.RawExtension{Raw: raw},
	}})
}

// The API server calls more than once for one deletion, and any replica may answer.
func TestSeveralCallsForOneDeletionTakeOneUnit(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	one, _ := replica(t)
	two, cached := replica(t)
	for _, pod := range pods {
		known(t, cached, pod)
	}
	for i, handler := range []*guard.Handler{one, two, one, two} {
		if answer := call(t, handler, pods[0]); !answer.Allowed {
			t.Fatalf("call %d: %+v, want that it passes", i, answer.Result)
		}
	}
	all := booksOf(t, ns)
	if len(all) != 1 || len(all[0].Entries) != 1 {
		t.Errorf("books %+v, want one with one entry", all)
	}
	if answer := call(t, two, pods[1]); answer.Allowed {
		t.Error("another pod passed")
	}
}

// A pod was not Ready when the API server asked, and is Ready when the book has its entry. Another
// decision may have counted on the pod, so that the pod is judged as a Ready one.
func TestAPodThatBecameReadyMeanwhileIsJudgedAsReady(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	one, cached := replica(t)
	for _, pod := range pods {
		known(t, cached, pod)
	}
	asked := pods[0].DeepCopy()
	for i := range asked.Status.Conditions {
		asked.Status.Conditions[i].Status = corev1.ConditionFalse
	}
	if answer := call(t, one, pods[1]); !answer.Allowed {
		t.Fatalf("first pod: %+v", answer.Result)
	}
	if answer := call(t, one, asked); answer.Allowed {
		t.Error("the pod that is Ready meanwhile passed, and took a second unit")
	}
	if all := booksOf(t, ns); len(all) != 1 || len(all[0].Entries) != 1 || all[0].Entries[0].UID != pods[1].UID {
		t.Errorf("books %+v, want an entry of the first pod alone", all)
	}
	pods[0].Status = asked.Status
	kubelet(t, pods[0])
	if answer := call(t, one, asked); !answer.Allowed {
		t.Errorf("%+v, want that a pod that is not Ready passes", answer.Result)
	}
}

// A budget holds from its first moment, also where it is older than its pods, and where it was
// made again under another name.
func TestABudgetHoldsFromItsFirstMoment(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub, pods := web(t, ns, 3, intstr.FromInt32(0)) // the budget was made first
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "web")
	env.Remove(t, pub)
	forgotten(t, pub)
	put(t, aBudget(ns, "again", "web", intstr.FromInt32(0)))
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "again")
	second := aBudget(ns, "second", "web", intstr.FromInt32(0))
	put(t, second)
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "again", "second")
}

// A namespace is deleted, whatever its budgets demand.
func TestANamespaceIsTornDown(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
	pub.Spec.MaxUnavailable, pub.Spec.MinAvailable = nil, new(intstr.FromInt32(3))
	put(t, pub)
	_, pods := podsOf(t, ns, 3)
	namespace := &corev1.Namespace{}
	namespace.Name = ns
	if err := env.Client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	env.Read(t, client.ObjectKeyFromObject(namespace), namespace)
	known(t, serving.GetCache(), namespace)
	for _, pod := range pods {
		if err := as(t, systemAccount+"namespace-controller").Delete(t.Context(), pod.DeepCopy()); err != nil {
			t.Errorf("delete pod %s: %v", pod.Name, err)
		}
	}
}

// A target is found through the chain of controllers, a Deployment's behind its ReplicaSet.
func TestTheSizeIsThatOfTheTarget(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub := aBudget(ns, "web", "web", intstr.FromString("50%"))
	pub.Spec.Selector = nil
	pub.Spec.TargetReference = &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	put(t, pub)
	pods := deployed(t, ns, 4)
	for i, pod := range pods {
		err := evictAs(t.Context(), env.Client, pod)
		if i < 2 && err != nil {
			t.Errorf("eviction %d: %v", i, err)
		}
		if i >= 2 {
			refusedBy(t, err, "web")
		}
	}
}
