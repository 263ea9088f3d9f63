package reconcile_test

import (
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

// TestAChildThatIsRefused has a selector that no PodDisruptionBudget may have. The budget goes on without its child, and says why.
func TestAChildThatIsRefused(t *testing.T) {
	startReconciler(t)
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "db"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Is"}}}
	b.Spec.MaxUnavailable, b.Spec.Child = new(intstr.FromInt32(1)), limpetv1alpha1.ChildPlain
	b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Name: "other"}}
	env.Create(t, b)
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(b), b)
		if c := meta.FindStatusCondition(b.Status.Conditions, budget.ConditionChild); c == nil || c.Status != metav1.ConditionFalse || c.Reason != budget.ReasonChildRefused {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// TestAChildOfPodsWithoutAWorkload lets no pod be evicted with maxUnavailable, as Kubernetes counts; the condition says so. With
// minAvailable it does what the share does.
func TestAChildOfPodsWithoutAWorkload(t *testing.T) {
	startReconciler(t)
	env.StartControllers(t, "disruption-controller")
	ns := env.Namespace(t)
	pod := testenv.APod("db-0").In(ns).On("n1").Ready()
	pod.Labels = map[string]string{"app": "db"}
	env.Create(t, pod.Pod)
	b := divided(ns, nil)
	b.Spec.Federation, b.Spec.Child = []limpetv1alpha1.BudgetPeer{{Name: "db"}}, limpetv1alpha1.ChildPlain
	env.Create(t, b)
	shows := func(want metav1.ConditionStatus, reason string, allowed int32) {
		t.Helper()
		testenv.Eventually(t, func() error {
			env.Patch(t, pod.Pod, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/look":"%d"}}}`, time.Now().UnixNano())) // an event
			var child policyv1.PodDisruptionBudget
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(b), &child); err != nil {
				return err
			}
			env.Read(t, client.ObjectKeyFromObject(b), b)
			c := meta.FindStatusCondition(b.Status.Conditions, budget.ConditionChild)
			if c == nil || c.Status != want || c.Reason != reason || child.Status.ObservedGeneration != child.Generation || child.Status.DisruptionsAllowed != allowed {
				return fmt.Errorf("condition %+v, child %+v", c, child.Status)
			}
			return nil
		})
	}
	shows(metav1.ConditionFalse, budget.ReasonChildNoSize, 0)
	env.Patch(t, b, `{"spec":{"maxUnavailable":null,"minAvailable":0}}`)
	shows(metav1.ConditionTrue, budget.ReasonChildKept, 1)
}

// TestAChildThatNoBudgetAsksForGoes was made just before its budget asked for none. One of a user stays.
func TestAChildThatNoBudgetAsksForGoes(t *testing.T) {
	startReconciler(t)
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "db"}}
	b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, new(intstr.FromInt32(1))
	users := b.DeepCopy()
	users.Name = "web"
	env.Create(t, b, users)
	child := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
	child.Spec.Selector, child.Spec.MaxUnavailable = b.Spec.Selector, b.Spec.MaxUnavailable
	own := child.DeepCopy()
	own.Name = users.Name
	child.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b, limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget"))}
	for _, pdb := range []client.Object{own, child} {
		if err := env.Client.Create(t.Context(), pdb); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(child), child); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the child is there: %w", err)
		}
		return nil
	})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil {
		t.Errorf("the PodDisruptionBudget of a user: %v", err)
	}
}

// TestADeletedBudgetMakesNoChild has a budget that a finalizer keeps while the garbage collector deletes its child: one would be
// made again and deleted all the time.
func TestADeletedBudgetMakesNoChild(t *testing.T) {
	m := startReconciler(t)
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "db", Finalizers: []string{"example.com/stay"}}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	b.Spec.MaxUnavailable, b.Spec.Child = new(intstr.FromInt32(1)), limpetv1alpha1.ChildPlain
	b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Name: "other"}}
	env.Create(t, b)
	child, key := &policyv1.PodDisruptionBudget{}, client.ObjectKeyFromObject(b)
	testenv.Eventually(t, func() error { return env.Client.Get(t.Context(), key, child) })
	if err := env.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	env.Known(t, m.GetClient(), &limpetv1alpha1.DistributedPodDisruptionBudgetList{})
	env.Remove(t, child)
	env.Patch(t, b, `{"spec":{"selector":{"matchLabels":{"app":"web"}}}}`)
	testenv.Eventually(t, func() error {
		if env.Read(t, key, b); b.Status.ObservedGeneration != b.Generation {
			return fmt.Errorf("generation %d of %d is counted", b.Status.ObservedGeneration, b.Generation)
		}
		return nil
	})
	if err := env.Client.Get(t.Context(), key, child); !apierrors.IsNotFound(err) {
		t.Errorf("the child is there again: %v", err)
	}
	env.Patch(t, b, `{"metadata":{"finalizers":null}}`)
}
