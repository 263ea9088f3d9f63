package cluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Nothing refuses long selectors of PodDisruptionBudgets, and of a budget that is being deleted:
// the webhook is not asked about such a budget.
func TestTheCacheKeepsLittleOfBudgets(t *testing.T) {
	needs := cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Budget), cluster.Of(cluster.DisruptionBudgetSelector)}}
	keep := func(o client.Object) client.Object {
		for kind, by := range cluster.CacheOptions(needs).ByObject {
			if fmt.Sprintf("%T", kind) != fmt.Sprintf("%T", o) {
				continue
			}
			kept, err := by.Transform(o)
			text, marshal := json.Marshal(kept)
			if err != nil || marshal != nil || len(text) > 64<<10 {
				t.Errorf("the cache keeps %d bytes of %T, want at most 64 KiB; errors %v, %v", len(text), o, err, marshal)
			}
			return kept.(client.Object)
		}
		t.Fatalf("the cache keeps no %T", o)
		return nil
	}
	long := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for i := range 5000 {
		long.MatchLabels[fmt.Sprintf("example.com/%060d", i)] = strings.Repeat("x", 60)
	}
	short := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	keep(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: long}})
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		readable bool
	}{"short": {short, true}, "long": {long, false}} {
		pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			policyv1beta1.AnnotationIgnoreScale: "true", policyv1beta1.AnnotationStableSeconds: "7", "example.com/note": strings.Repeat("x", 200<<10),
		}}}
		pub.Spec.Selector, pub.Spec.IgnoredPodSelector = tc.selector, tc.selector
		want, _ := budget.RulesOf(pub)
		kept := keep(pub).(*policyv1beta1.PodUnavailableBudget)
		if got, err := budget.RulesOf(kept); err != nil || got.IgnoreScale != want.IgnoreScale || got.Stable != want.Stable {
			t.Errorf("budget %s: rules %+v, want %+v; error %v", name, got, want, err)
		}
		if _, err := budget.MatcherOf(kept); (err == nil) != tc.readable {
			t.Errorf("budget %s: error %v, want one: %v", name, err, !tc.readable)
		}
	}
}
