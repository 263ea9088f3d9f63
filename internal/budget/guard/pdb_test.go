package guard_test

import (
	"strings"
	"sync"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// aPDB creates a PodDisruptionBudget of the pods with the label app, which allows some
// disruptions.
func aPDB(t *testing.T, ns, name string, allowed int32) {
	t.Helper()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: new(intstr.FromInt32(1)),
		},
	}
	put(t, pdb)
	pdb.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: pdb.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 3, DesiredHealthy: 3 - allowed, ExpectedPods: 3,
	}
	if err := env.Client.Status().Update(t.Context(), pdb); err != nil {
		t.Fatal(err)
	}
}

// An eviction that a PodDisruptionBudget refuses costs no unit, whatever the cache shows.
func TestAnExhaustedPodDisruptionBudgetCostsNothing(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	aPDB(t, ns, "native", 0)
	err := evictAs(t.Context(), env.Client, pods[0])
	refusedBy(t, err, "native")
	if !strings.Contains(err.Error(), "native needs 3 healthy pods and has 3") {
		t.Errorf("message %q", err)
	}
	for _, book := range booksOf(t, ns) {
		if len(book.Entries) > 0 {
			t.Errorf("entries %+v, want none", book.Entries)
		}
	}
	if err := deleteAs(t.Context(), env.Client, pods[0]); err != nil {
		t.Errorf("a deletion, about which no PodDisruptionBudget is asked: %v", err)
	}
}

// On two PodDisruptionBudgets the API server answers 500, and a drain ends. The answer here
// names both and offers the budget that replaces them, also where no other budget covers the pod.
func TestTwoPodDisruptionBudgetsAreNamed(t *testing.T) {
	serve(t)
	for _, covered := range []bool{true, false} {
		ns := guarded(t)
		if covered {
			put(t, aBudget(ns, "web", "web", intstr.FromInt32(1)))
		}
		_, pods := podsOf(t, ns, 3)
		aPDB(t, ns, "one", 1)
		aPDB(t, ns, "two", 1)
		for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
			err := evictAs(t.Context(), env.Client, pods[0], dryRun...)
			refusedBy(t, err, "one", "two")
			for _, word := range []string{"one", "two", "kind: PodUnavailableBudget", "maxUnavailable: 1"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("covered %t: message %q does not have %q", covered, err, word)
				}
			}
		}
		if all := booksOf(t, ns); !covered && len(all) > 0 {
			t.Errorf("%d books of no budget", len(all))
		}
	}
}

// A drain that waits for a pod does not evict the pod that was rebuilt under its name.
func TestAnEvictionForThePredecessorSparesTheSuccessor(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, aBudget(ns, "web", "web", intstr.FromInt32(0)))
	set, pods := podsOf(t, ns, 2)
	drain, other := as(t, "drain"), as(t, "other")
	refusedBy(t, evictAs(t.Context(), drain, pods[0]), "web")
	if err := as(t, "system:kube-scheduler").Delete(t.Context(), pods[0].DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("preemption: %v", err)
	}
	next := aPod(set, 0)
	put(t, next)
	if err := evictAs(t.Context(), drain, next); !apierrors.IsNotFound(err) {
		t.Errorf("the drain that waited: %v, want that its pod is not found", err)
	}
	refusedBy(t, evictAs(t.Context(), drain, next), "web") // another drain of the same user
	refusedBy(t, evictAs(t.Context(), drain, next), "web")
	refusedBy(t, evictAs(t.Context(), other, next), "web")
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &next.UID}}}
	refusedBy(t, drain.SubResource("eviction").Create(t.Context(), next.DeepCopy(), e), "web")
	e.DeleteOptions.Preconditions.UID = &pods[0].UID
	if err := drain.SubResource("eviction").Create(t.Context(), next.DeepCopy(), e); !apierrors.IsConflict(err) {
		t.Errorf("an eviction of another UID: %v, want the conflict of the API server", err)
	}
}

// Of two evictions at once, which a PodDisruptionBudget has one unit for, one is refused before it takes
// a unit here: the API server would refuse it afterwards, and the unit would stay in use for 40 s.
func TestTwoEvictionsAtOnceTakeNoUnitInVain(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 4, intstr.FromInt32(2))
	aPDB(t, ns, "native", 1)
	pods = pods[:2]
	var wg sync.WaitGroup
	answers := make([]error, len(pods))
	for i, pod := range pods {
		wg.Go(func() { answers[i] = evictAs(t.Context(), env.Client, pod) })
	}
	wg.Wait()
	passed := 0
	for _, err := range answers {
		if err == nil {
			passed++
			continue
		}
		refusedBy(t, err, "native")
	}
	if passed != 1 {
		t.Errorf("answers %v, want that one passes", answers)
	}
	for _, book := range booksOf(t, ns) {
		if len(book.Entries) != 1 {
			t.Errorf("entries %+v, want one", book.Entries)
		}
	}
}
