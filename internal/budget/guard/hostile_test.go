package guard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionapi "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// What a tenant writes onto its pod opens no budget: the condition by which Kubernetes ends
// pods, OpenKruise's annotation of another budget, an owner that does not exist.
func TestForgedMarksOpenNoBudget(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, aBudget(ns, "web", "web", intstr.FromInt32(0)), aBudget(ns, "other", "other", intstr.FromInt32(1)))
	set := testenv.AStatefulSet("web", 2).In(ns)
	plain, forged := aPod(set, 0), aPod(set, 1)
	forged.Annotations = map[string]string{"kruise.io/related-pub": "other", "pub.kruise.io/related-pub": "other"}
	forged.Status.Conditions = append(forged.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
	})
	put(t, set.StatefulSet, plain, forged)
	refusedBy(t, as(t, "tenant").Delete(t.Context(), forged.DeepCopy()), "web")
	refusedBy(t, evictAs(t.Context(), as(t, "tenant"), forged), "web")
	orphaned := plain.DeepCopy()
	orphaned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "none", UID: "none", Controller: new(true)}}
	refusedBy(t, as(t, "tenant").Update(t.Context(), orphaned), "web")
	orphaned.OwnerReferences[0] = metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Game", Name: "none", UID: "none"}
	refusedBy(t, as(t, "tenant").Update(t.Context(), orphaned), "web")
}

// A tenant may create any number of budgets. Beyond a bound a pod is refused at once, and what
// no budget may refuse still passes.
func TestAPodOfTooManyBudgetsIsRefused(t *testing.T) {
	serve(t)
	ns := guarded(t)
	for i := range 33 {
		put(t, aBudget(ns, fmt.Sprintf("b%d", i), "web", intstr.FromInt32(1)))
	}
	_, pods := podsOf(t, ns, 2)
	err := evictAs(t.Context(), env.Client, pods[0])
	if err == nil || !strings.Contains(err.Error(), "33 budgets cover the pod") {
		t.Errorf("answer %v, want that there are too many budgets", err)
	}
	if err := as(t, "system:kube-scheduler").Delete(t.Context(), pods[0].DeepCopy()); err != nil {
		t.Errorf("preemption: %v", err)
	}
	if all := booksOf(t, ns); len(all) > 0 {
		t.Errorf("%d books, want none", len(all))
	}
}

// dryEviction asks a guard about a dry run of an eviction, as the API server does.
func dryEviction(pod *corev1.Pod) admission.Request {
	return admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Create, SubResource: "eviction", Namespace: pod.Namespace, Name: pod.Name,
		Object: runtime.RawExtension{Raw: []byte(`{"deleteOptions":{"dryRun":["All"]}}`)},
	}}
}

// A dry run of an eviction costs one read of the pod, however many budgets the namespace has.
func TestADryRunCostsOneRead(t *testing.T) {
	serve(t)
	observed, traffic := env.Observe(t)
	handler, cached := replicaWith(t, cluster.CacheOptions(needs()...), observed)
	ns := guarded(t)
	for i := range 200 {
		create(t, aBudget(ns, fmt.Sprintf("b%d", i), fmt.Sprintf("other-%d", i), intstr.FromInt32(0)))
	}
	_, pods := web(t, ns, 3, intstr.FromInt32(0))
	for _, pod := range pods {
		known(t, cached, pod)
	}
	for range 5 {
		if answer := handler.Handle(t.Context(), dryEviction(pods[0])); answer.Allowed || len(answer.Result.Details.Causes) != 1 {
			t.Errorf("answer %+v, want the refusal of one budget", answer.Result)
		}
	}
	if n := traffic.Count(""); n != 5 {
		t.Errorf("%d requests for five dry runs", n)
	}
}

// A budget holds although the cache does not show it yet: only namespaces with a budget are
// sent to the guard.
func TestTheFirstBudgetOfANamespaceHoldsBeforeTheCacheShowsIt(t *testing.T) {
	serve(t)
	blind := cluster.CacheOptions(needs()...)
	for o, by := range blind.ByObject {
		if _, ok := o.(*policyv1beta1.PodUnavailableBudget); ok {
			by.Field = fields.OneTermEqualSelector("metadata.name", "none")
			blind.ByObject[o] = by
		}
	}
	handler, cached := replicaWith(t, blind, nil)
	ns := guarded(t)
	_, pods := web(t, ns, 2, intstr.FromInt32(0))
	known(t, cached, pods[0])
	if answer := handler.Handle(t.Context(), dryEviction(pods[0])); answer.Allowed {
		t.Error("the eviction passes")
	}
}

// A further request for a pod that has an entry is judged like the first one. So it needs a
// cache that is as new as the book: an old one could count a pod that is gone.
func TestAReplicaThatIsBehindRepeatsNoAnswer(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	book := &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "00000000-0000-0000-0000-000000000000"}, Seen: "99999999999999"}
	book.Entries = []limpetv1alpha1.DisruptionEntry{{
		UID: pods[0].UID, Pod: pods[0].Name, Use: "Gone", Vector: "evict", By: "system:admin",
		Since: metav1.NowMicro(), Expires: metav1.NewMicroTime(time.Now().Add(ledger.Bound)),
	}}
	put(t, book)
	err := as(t, "system:admin").SubResource("eviction").Create(t.Context(), pods[0].DeepCopy(), &policyv1.Eviction{})
	refusedBy(t, err)
	if !strings.Contains(err.Error(), "cache of this replica is behind") {
		t.Errorf("answer %v", err)
	}
}

// A replica whose cache is older than what a book relies on waits for a moment, and then
// refuses: it could count a pod that is gone. What no budget may refuse passes.
func TestAReplicaThatIsBehindGivesNoUnit(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	book := &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "00000000-0000-0000-0000-000000000000"}, Seen: "99999999999999"}
	put(t, book)
	begin := time.Now()
	err := evict(t.Context(), pods[0], false)
	refusedBy(t, err)
	if !strings.Contains(err.Error(), "cache of this replica is behind") || time.Since(begin) < 400*time.Millisecond {
		t.Errorf("answer %v after %s", err, time.Since(begin))
	}
	if err := as(t, "system:kube-scheduler").Delete(t.Context(), pods[1].DeepCopy()); err != nil {
		t.Errorf("preemption: %v", err)
	}
}
