package validate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/pin"
)

// Without the conversion no test can change an object as v1alpha1, so its webhook cannot
// be tried while no replica answers.
func TestBothVersionsAreJudgedAlike(t *testing.T) {
	validating := testenv.ReadWebhooks(t).Validating
	judged := map[string][]admissionv1.MatchCondition{}
	for _, w := range validating.Webhooks {
		if *w.FailurePolicy == admissionv1.Fail {
			judged[w.Rules[0].APIVersions[0]] = w.MatchConditions
		}
	}
	if diff := cmp.Diff(judged["v1beta1"], judged["v1alpha1"]); diff != "" || len(judged) != 2 {
		t.Errorf("match conditions of %d webhooks (-v1beta1 +v1alpha1):\n%s", len(judged), diff)
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
	want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: pin.LeftOut()},
	}}
	for name, selector := range selectors {
		if diff := cmp.Diff(want, selector); diff != "" {
			t.Errorf("namespaces of webhook %s (-want +got):\n%s", name, diff)
		}
	}
	if len(selectors) < 3 {
		t.Errorf("selectors of %d webhooks, want those of pods and of StatefulSets", len(selectors))
	}
}
