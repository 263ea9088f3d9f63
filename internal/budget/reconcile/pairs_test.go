package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
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

// podsWith are pods with these labels.
func podsWith(n int, labels func(i int) map[string]string) []*corev1.Pod {
	all := make([]*corev1.Pod, n)
	for i := range all {
		all[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels(i)}}
	}
	return all
}

// A tenant has ten thousand PodDisruptionBudgets and pods. The search for pods with two of them
// must not take the leader's time.
func TestTheSearchForPairsIsBounded(t *testing.T) {
	pods := podsWith(10_000, func(i int) map[string]string { return map[string]string{"app": "web", "pod": fmt.Sprint(i)} })
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
	pods := podsWith(1, func(int) map[string]string { return map[string]string{"app": "web"} })
	if got := controller.PairsOf([]policyv1.PodDisruptionBudget{pdb}, pods); len(got) > 0 {
		t.Errorf("%v share pods", got)
	}
}

// A selector of 48 KiB has thousands of requirements, and each comparison with a pod costs them all.
func TestTheSearchForPairsCountsRequirements(t *testing.T) {
	const requirements = 1000
	pdbs := disruptionBudgets(500, func(int) map[string]string { return map[string]string{"app": "web"} })
	for i := range pdbs {
		for j := range requirements {
			pdbs[i].Spec.Selector.MatchExpressions = append(pdbs[i].Spec.Selector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: fmt.Sprint("a", j), Operator: metav1.LabelSelectorOpDoesNotExist})
		}
		pdbs[i].Spec.Selector.MatchExpressions = append(pdbs[i].Spec.Selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	pods := podsWith(100, func(int) map[string]string { return map[string]string{"app": "web"} })
	if n := controller.Compared(pdbs, pods); n > controller.MostCompared+2*requirements {
		t.Errorf("%d requirements are compared, want at most %d", n, controller.MostCompared)
	}
	big := disruptionBudgets(3000, func(i int) map[string]string { return map[string]string{"app": fmt.Sprint(i / 2)} })
	for i := range big {
		big[i].Spec.Selector.MatchExpressions = pdbs[0].Spec.Selector.MatchExpressions[:requirements]
	}
	pods = podsWith(1500, func(i int) map[string]string { return map[string]string{"app": fmt.Sprint(i)} })
	if got := len(controller.PairsOf(big, pods)); got == 0 || got > controller.MostCompared/requirements {
		t.Errorf("%d budgets of such a size share pods, want those of the first million requirements", got)
	}
}

// Pods beyond the bound are not looked at: Kubernetes still answers 500 to their evictions.
func TestTheSearchForPairsLooksAtABoundedNumberOfPods(t *testing.T) {
	pods := podsWith(controller.MostSearched+1, func(i int) map[string]string { return map[string]string{"pod": fmt.Sprint(i)} })
	of := func(pod int) []policyv1.PodDisruptionBudget {
		return disruptionBudgets(2, func(int) map[string]string { return map[string]string{"pod": fmt.Sprint(pod)} })
	}
	if got := controller.PairsOf(of(controller.MostSearched-1), pods); len(got) != 2 {
		t.Errorf("%v share the last pod of the bound, want both", got)
	}
	if got := controller.PairsOf(of(controller.MostSearched), pods); len(got) != 0 {
		t.Errorf("%v share a pod beyond the bound", got)
	}
}
