package budget_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controller "github.com/limpet-io/limpet/internal/controller/budget"
)

// disruptionBudgets are PodDisruptionBudgets with these labels.
func disruptionBudgets(n int, labels func(i int) map[string]string) []policyv1.PodDisruptionBudget {
	all := make([]policyv1.PodDisruptionBudget, n)
	for i := range all {
		all[i].Name = fmt.Sprintf("pdb-%05d", i)
		all[i].Spec.Selector = &metav1.LabelSelector{MatchLabels: labels(i)}
	}
	return all
}

// A tenant has ten thousand PodDisruptionBudgets and pods. The search for pods with two of them
// must not take the leader's time.
func TestTheSearchForPairsIsBounded(t *testing.T) {
	pods := make([]corev1.Pod, 10_000)
	for i := range pods {
		pods[i].Labels = map[string]string{"app": "web", "pod": fmt.Sprint(i)}
	}
	for name, tc := range map[string]struct {
		labels      func(i int) map[string]string
		pairs, most int
	}{
		"of one workload each": {func(i int) map[string]string { return map[string]string{"app": fmt.Sprint(i)} }, 0, 0},
		"of one pod each":      {func(i int) map[string]string { return map[string]string{"pod": fmt.Sprint(i)} }, 0, 10_000},
		"of two pods each":     {func(i int) map[string]string { return map[string]string{"pod": fmt.Sprint(i / 2)} }, 10_000, 20_000},
		"of all pods":          {func(int) map[string]string { return map[string]string{"app": "web"} }, 64, controller.MostCompared},
		"of no pod": {func(i int) map[string]string {
			return map[string]string{"app": "web", "other": fmt.Sprint(i)}
		}, 0, controller.MostCompared},
	} {
		t.Run(name, func(t *testing.T) {
			pdbs := disruptionBudgets(10_000, tc.labels)
			if n := controller.Compared(pdbs, pods); n > tc.most {
				t.Errorf("pods are compared with budgets %d times, want at most %d", n, tc.most)
			}
			if got := controller.PairsOf(pdbs, pods); len(got) != tc.pairs {
				t.Errorf("%d budgets share pods, want %d", len(got), tc.pairs)
			}
		})
	}
}

// A value that is named twice is one requirement.
func TestABudgetIsNoPairOfItself(t *testing.T) {
	pdb := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "web"}},
	}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	if got := controller.PairsOf([]policyv1.PodDisruptionBudget{pdb}, []corev1.Pod{pod}); len(got) > 0 {
		t.Errorf("%v share pods", got)
	}
}
