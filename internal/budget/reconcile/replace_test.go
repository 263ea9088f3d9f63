package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// pair makes a pod with two PodDisruptionBudgets.
func pair(t *testing.T) (namespace string, pod *corev1.Pod) {
	t.Helper()
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet)
	p := testenv.APod("web").In(ns).Ready().OwnedBy(set.StatefulSet)
	p.Labels = map[string]string{"app": "web", "tier": "front"}
	env.Create(t, p.Pod)
	for name, labels := range map[string][]string{"app": {"app", "web"}, "tier": {"tier", "front"}} {
		b := pdb(name, labels...)
		b.Namespace, b.Spec.MaxUnavailable = ns, new(intstr.FromInt32(1))
		env.Create(t, &b)
	}
	return ns, p.Pod
}

// left returns how many PodDisruptionBudgets and PodUnavailableBudgets a namespace has.
func left(t *testing.T, ns string) (pdbs, pubs int) {
	t.Helper()
	var old policyv1.PodDisruptionBudgetList
	var now policyv1beta1.PodUnavailableBudgetList
	if err := env.Client.List(t.Context(), &old, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.List(t.Context(), &now, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return len(old.Items), len(now.Items)
}

// PodDisruptionBudgets that share a pod are replaced where the namespace asks for that, and
// evictions of the pod are then possible.
func TestPodDisruptionBudgetsAreReplacedWhereTheNamespaceAsks(t *testing.T) {
	m := newManager(t)
	m.guarding(t)
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	ns, pod := pair(t)
	other, _ := pair(t)
	env.Annotate(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, policyv1beta1.AnnotationReplace, "true")
	testenv.Eventually(t, func() error {
		if pdbs, pubs := left(t, ns); pdbs != 0 || pubs != 2 {
			return fmt.Errorf("%d PodDisruptionBudgets and %d PodUnavailableBudgets, want 0 and 2", pdbs, pubs)
		}
		return nil
	})
	for _, name := range []string{"app", "tier"} {
		pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		has(t, pub, enforced, metav1.ConditionTrue, "Enforced", "")
		env.RemoveAtEnd(t, pub)
	}
	if err := env.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); err != nil {
		t.Errorf("evict the pod: %v", err)
	}
	labelled(t, other, "open", false)
	if pdbs, pubs := left(t, other); pdbs != 2 || pubs != 0 {
		t.Errorf("%d PodDisruptionBudgets and %d PodUnavailableBudgets in a namespace that does not ask, want 2 and 0", pdbs, pubs)
	}
}

// A budget of another meaning that has the name keeps the PodDisruptionBudgets.
func TestATakenNameReplacesNothing(t *testing.T) {
	m := newManager(t)
	m.guarding(t)
	m.start(t, m.reconciler(), m.labeler(clock.RealClock{}))
	ns, _ := pair(t)
	taken := aBudget(ns, "app", intstr.FromString("100%"))
	env.Create(t, taken)
	env.Annotate(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, policyv1beta1.AnnotationReplace, "true")
	env.Told(t, taken, "DisruptionBudgetNotReplaced", "app")
	if pdbs, _ := left(t, ns); pdbs != 2 {
		t.Errorf("%d PodDisruptionBudgets, want 2", pdbs)
	}
}

// A thief of the controller's token replaces nothing in other namespaces.
func TestPoliciesKeepBudgetsOfOtherNamespaces(t *testing.T) {
	ns, _ := pair(t)
	thief := env.As(t, env.AsController(t))
	old := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}}
	testenv.Eventually(t, func() error { // a new policy takes a moment
		if err := thief.Delete(t.Context(), old, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("delete a PodDisruptionBudget: %w, want a refusal", err)
		}
		if err := thief.Create(t.Context(), aBudget(ns, "thief", intstr.FromInt32(0)), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("create a PodUnavailableBudget: %w, want a refusal", err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "limpet-guard-probe"}}
		if err := thief.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("evict a pod with the name of the probe: %w, want a refusal", err)
		}
		return nil
	})
}
