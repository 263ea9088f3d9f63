package reconcile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

func pdb(name string, labels ...string) policyv1.PodDisruptionBudget {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		selector.MatchLabels[labels[i]] = labels[i+1]
	}
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
}

func TestPairsOf(t *testing.T) {
	pod := func(labels ...string) *corev1.Pod {
		p := testenv.APod("web").Ready().Pod
		p.Labels = pdb("", labels...).Spec.Selector.MatchLabels
		return p
	}
	over := pod("app", "web", "tier", "front")
	over.Status.Phase = corev1.PodSucceeded
	wrong := pdb("wrong")
	wrong.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Perhaps"}}
	none := pdb("none")
	none.Spec.Selector = nil
	all := []policyv1.PodDisruptionBudget{pdb("app", "app", "web"), pdb("tier", "tier", "front"), pdb("other", "app", "db"), wrong, none}
	cases := map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"no pods":                         {nil, nil},
		"one budget for each pod":         {[]*corev1.Pod{pod("app", "web"), pod("tier", "front"), pod("app", "db")}, nil},
		"two budgets for one pod":         {[]*corev1.Pod{pod("app", "web"), pod("app", "web", "tier", "front")}, []string{"app", "tier"}},
		"a pod that has ended needs none": {[]*corev1.Pod{over}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, controller.PairsOf(all, tc.pods)); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
		})
	}
}
