package reconcile_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// tells waits for the newest decision of a pod in the status of a budget.
func tells(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, pod, vector, verdict, reason string) {
	t.Helper()
	status(t, pub, func(s policyv1beta1.PodUnavailableBudgetStatus) error {
		for _, d := range s.Decisions {
			if d.Pod == pod && d.Vector == vector && d.Verdict == verdict && d.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("decisions %+v, want %s of %s %s for %s", s.Decisions, vector, pod, verdict, reason)
	})
}

// A pod that went without a request is counted once, however many budgets cover the pod.
func TestUnguardedDisruptionsAreCountedOnce(t *testing.T) {
	m := startReconciler(t)
	pub, set, all := protected(t)
	second := aBudget(set.Namespace, "second", intstr.FromInt32(1))
	second.Spec.Selector = pub.Spec.Selector
	env.Create(t, second)
	shows(t, second, numbers{1, 3, 2, 3})
	env.Remove(t, all[0]) // no webhook is installed
	tells(t, pub, "web-0", "lost", "Accounted", "NotJudged")
	tells(t, second, "web-0", "lost", "Accounted", "NotJudged")
	m.counted(t, map[string]float64{"NotJudged": 1})
	for _, budget := range []*policyv1beta1.PodUnavailableBudget{pub, second} {
		testenv.Eventually(t, func() error {
			if all, want := testenv.SeriesOf(t, m.metrics, "limpet_budget_troubles"), budget.Name+" Unjudged "+budget.Namespace; !slices.Contains(all, want) {
				return fmt.Errorf("the metric names %q, want %q among them", all, want)
			}
			return nil
		})
	}
	env.Told(t, pub, "DisruptionUnguarded", "web-0")
	env.Told(t, second, "DisruptionUnguarded", "web-0")
}

// A lost pod is counted with what took it.
func TestCausesOfUnguardedDisruptions(t *testing.T) {
	m := startReconciler(t)
	node := env.Node(t)
	pub, set, all := protected(t)
	var bound []*corev1.Pod
	for i := 3; i < 5; i++ {
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(set.Namespace).OwnedBy(set.StatefulSet).On(node.Name).Ready()
		pod.Labels = set.Spec.Selector.MatchLabels
		env.Create(t, pod.Pod)
		bound = append(bound, pod.Pod)
	}
	status(t, pub, func(s policyv1beta1.PodUnavailableBudgetStatus) error {
		if s.CurrentAvailable != 5 {
			return fmt.Errorf("%d pods are available, want 5", s.CurrentAvailable)
		}
		return nil
	})
	fails := func(pod *corev1.Pod, edit func(*corev1.PodStatus)) {
		t.Helper()
		edit(&pod.Status)
		if err := env.Client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	unready := func(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionFalse }
	fails(all[0], unready)
	fails(all[1], func(s *corev1.PodStatus) { s.Phase, s.Reason = corev1.PodFailed, "Evicted" })
	fails(all[2], func(s *corev1.PodStatus) { s.Phase, s.Reason = corev1.PodFailed, "" })
	fails(bound[0], func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded }) // no loss
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := env.Client.Status().Update(t.Context(), node.Node); err != nil {
		t.Fatal(err)
	}
	env.Known(t, m.GetClient(), &corev1.NodeList{})
	fails(bound[1], unready)
	m.counted(t, map[string]float64{"NotReady": 1, "EvictedByKubelet": 1, "PodFailed": 1, "NodeLost": 1})
}
