package validate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/mark"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/pin"
)

// Without the conversion no test can change an object as v1alpha1, so its webhook cannot
// be tried while no replica answers.
func TestBothVersionsAreJudgedAlike(t *testing.T) {
	validating := testenv.ReadWebhooks(t).Validating
	judged := map[string]map[string][]admissionv1.MatchCondition{} // by resource and version
	for _, w := range validating.Webhooks {
		rule := w.Rules[0]
		if *w.FailurePolicy != admissionv1.Fail || len(rule.Resources) != 1 {
			continue
		}
		if judged[rule.Resources[0]] == nil {
			judged[rule.Resources[0]] = map[string][]admissionv1.MatchCondition{}
		}
		judged[rule.Resources[0]][rule.APIVersions[0]] = w.MatchConditions
	}
	for _, resource := range []string{"persistentpodstates", "workloadspreads", "podunavailablebudgets"} {
		versions := judged[resource]
		if diff := cmp.Diff(versions["v1beta1"], versions["v1alpha1"]); diff != "" || len(versions) != 2 {
			t.Errorf("match conditions of %d webhooks for %s (-v1beta1 +v1alpha1):\n%s", len(versions), resource, diff)
		}
	}
}

// What is said to be left out is what the manifest leaves out.
func TestNamespacesThatAreLeftOut(t *testing.T) {
	w := testenv.ReadWebhooks(t)
	mutating, validating := w.Mutating, w.Validating
	selectors := map[string]*metav1.LabelSelector{}
	for _, w := range mutating.Webhooks {
		selectors[w.Name] = w.NamespaceSelector
	}
	for _, w := range validating.Webhooks {
		if w.NamespaceSelector != nil { // PersistentPodStates are judged wherever they are
			selectors[w.Name] = w.NamespaceSelector
		}
	}
	want := []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: pin.LeftOut()},
	}
	for name, selector := range selectors {
		got := slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == mark.Budgets.Label || r.Key == mark.Spreads.Label // guards and planners of spreads are sent less
		})
		if diff := cmp.Diff(want, got); diff != "" || selector.MatchLabels != nil {
			t.Errorf("namespaces of webhook %s (-want +got):\n%s", name, diff)
		}
	}
	if len(selectors) < 3 {
		t.Errorf("selectors of %d webhooks, want those of pods and of StatefulSets", len(selectors))
	}
}
