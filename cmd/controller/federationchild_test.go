package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestChildrenOfBudgets has two budgets that show their shares as PodDisruptionBudgets, which the disruption controller of
// Kubernetes counts.
func TestChildrenOfBudgets(t *testing.T) {
	install(t)
	r := startReplica(t, "--leader-elect=false")
	pointWebhooksAt(t, r)
	r.waitReady(t)
	env.StartControllers(t, "disruption-controller")
	here := &land{name: "", env: env, replica: r}
	w := &team{lands: []*land{here, here}, in: []string{"child-a", "child-b"}, size: perLand, open: true}
	w.fill(t, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		atMostOne(s)
		s.Child, s.PartitionPolicy = limpetv1alpha1.ChildPlain, limpetv1alpha1.PartitionReserved
	})
	defer budgetsKept(t, w)
	w.settle(t)
	w.children(t, 1, 0)
	w.unitTravels(t)
	w.children(t, 0, 1)

	other := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.in[1], Name: "users"}}
	other.Spec.Selector, other.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, new(intstr.FromInt32(2))
	env.Create(t, other)
	testenv.Within(t, time.Minute, func() error {
		if err := w.evict(t.Context(), 1, 0, metav1.DryRunAll); err != nil && !apierrors.IsTooManyRequests(err) {
			t.Errorf("eviction beside another PodDisruptionBudget: %v", err)
		}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.in[1], Name: "db"}, &policyv1.PodDisruptionBudget{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the child is there: %w", err)
		}
		return nil
	})
	w.shows(t, 1, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
		c := meta.FindStatusCondition(b.Status.Conditions, budget.ConditionChild)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == budget.ReasonChildOther
	})
	env.Remove(t, other)
	w.children(t, 0, 1)

	r.kill(t) // from here on the guard lets all pods go
	went := 0
	testenv.Within(t, time.Minute, func() error {
		for land := range w.lands {
			for pod := range perLand {
				err := w.evict(t.Context(), land, pod)
				if err == nil {
					went++
				} else if !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
		if went == 0 {
			return errors.New("no pod goes")
		}
		return nil
	})
	if went != 1 {
		t.Errorf("%d pods go without a controller, want 1", went)
	}
	r.start(t) // it takes the label from pods that are removed
	r.waitReady(t)
}

// unitTravels lets a pod of each land go, for which the unit comes there with its child.
func (w *team) unitTravels(t *testing.T) {
	t.Helper()
	for land := range w.lands {
		w.goes(t, land, 0)
		w.stays(t, (land+1)%len(w.lands), 1, "")
		w.noted(t, land)
		w.rebuild(t, land, 0)
	}
}

// noted waits until the disruption controller knows that each evicted pod of a land is gone. It tells pods by their names:
// for two minutes it would count a pod of the same name as one that is still to go.
func (w *team) noted(t *testing.T, land int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var b policyv1.PodDisruptionBudget
		err := w.lands[land].env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.in[land], Name: "db"}, &b)
		if err == nil && len(b.Status.DisruptedPods) > 0 {
			err = fmt.Errorf("evicted pods in %s: %v", w.in[land], b.Status.DisruptedPods)
		}
		return err
	})
}

// childrenOverLands has a disruption controller of Kubernetes in each cluster.
func childrenOverLands(t *testing.T, lands []*land) {
	for _, l := range lands {
		l.env.StartControllers(t, "disruption-controller")
	}
	w := newTeam(t, "children", lands, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		atMostOne(s)
		s.Child = limpetv1alpha1.ChildPlain
	})
	defer budgetsKept(t, w)
	w.children(t, 1, 0, 0)
	w.unitTravels(t)
	w.children(t, 0, 0, 1)
}

// children waits until the child of each budget lets so many pods go, by its status.
func (w *team) children(t *testing.T, allowed ...int32) {
	t.Helper()
	testenv.Within(t, time.Minute, func() error {
		for i, want := range allowed {
			var b policyv1.PodDisruptionBudget
			if err := w.lands[i].env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.in[i], Name: "db"}, &b); err != nil {
				return err
			}
			if b.Status.ObservedGeneration != b.Generation || b.Status.DisruptionsAllowed != want || b.Spec.MaxUnavailable.IntVal != want {
				return fmt.Errorf("child in %s lets %d go, by its status %d, want %d", w.in[i], b.Spec.MaxUnavailable.IntVal, b.Status.DisruptionsAllowed, want)
			}
		}
		return nil
	})
}
