package review_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
)

// The API server sends objects of v1alpha1 to the webhooks of v1beta1.
func TestBothVersionsAreJudgedAlike(t *testing.T) {
	judged := map[string]bool{}
	for _, w := range testenv.ReadWebhooks(t).Validating.Webhooks {
		if w.MatchPolicy != nil && *w.MatchPolicy == admissionv1.Equivalent && *w.FailurePolicy == admissionv1.Fail {
			judged[w.Rules[0].Resources[0]+" "+w.Rules[0].APIVersions[0]] = true
		}
	}
	want := map[string]bool{"persistentpodstates v1beta1": true, "workloadspreads v1beta1": true, "podunavailablebudgets v1beta1": true}
	if diff := cmp.Diff(want, judged); diff != "" {
		t.Errorf("resources of which both versions are judged (-want +got):\n%s", diff)
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
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: workload.LeftOut()},
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
