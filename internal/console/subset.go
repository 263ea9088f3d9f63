package console

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// subsetOf says which WorkloadSpread places a pod, in which subset it is, and what that asks of nodes; empty for none.
func subsetOf(f *facts.Facts, pod *corev1.Pod) string {
	match, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
	for i := range f.Spreads {
		ws := &f.Spreads[i]
		matched := err == nil && match.Name == ws.Name
		covered, bad := spread.Covers(ws, pod.Labels, f.Chain(pod))
		switch {
		case ws.Namespace != pod.Namespace, !covered || bad != nil, err == nil && !matched:
			continue
		case !matched:
			return fmt.Sprintf("WorkloadSpread %s, and has no subset", ws.Name)
		}
		return fmt.Sprintf("WorkloadSpread %s, now in subset %s%s", ws.Name, match.Subset, requirement(ws, match.Subset))
	}
	return ""
}

// requirement says which nodes a subset takes.
func requirement(ws *appsv1beta1.WorkloadSpread, subset string) string {
	var terms []string
	for _, s := range ws.Spec.Subsets {
		if s.Name != subset || s.RequiredNodeSelector == nil {
			continue
		}
		for _, r := range s.RequiredNodeSelector.MatchExpressions {
			terms = append(terms, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
	}
	if len(terms) == 0 {
		return ""
	}
	return " (" + strings.Join(terms, "; ") + ")"
}
