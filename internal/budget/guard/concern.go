package guard

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Concerns reports whether guards are asked about a request. The match conditions of
// deploy/controller/webhooks.yaml say the same in CEL, which a test compares. An eviction only
// names its pod, so that the API server sends every eviction.
func Concerns(r disruption.Request) bool {
	if !workload.Alive(r.Pod) || workload.Mirrors(r.Pod) {
		return false
	}
	return r.Verb != budget.VerbUpdate || changes(r.Pod, r.Changed) || budget.Unreadies(r.Pod, r.Changed) && !budget.Observes(r.User, r.Info.Groups)
}

// changes reports whether an update may take a pod out of a budget, or may make it unavailable.
func changes(before, after *corev1.Pod) bool {
	exempt, wasExempt := after.Annotations[policyv1beta1.AnnotationNoProtect], before.Annotations[policyv1beta1.AnnotationNoProtect]
	return exempt != wasExempt || !equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)
}
