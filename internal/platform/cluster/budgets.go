package cluster

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// longestSelector is the length of a selector that the cache keeps. The webhook refuses longer
// ones of PodUnavailableBudgets; nothing refuses those of PodDisruptionBudgets, and of objects
// that are being deleted.
const longestSelector = 48 << 10

// tooLong takes the place of a longer selector. It cannot be read, so that it selects no pod, and
// the condition of its budget says so.
var tooLong = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "selector", Operator: "TooLong"}}}

// Budget keeps a PodUnavailableBudget without a long selector, and of its annotations those that
// say how it is kept.
func Budget(from, to *policyv1beta1.PodUnavailableBudget) {
	to.Spec, to.Status = from.Spec, from.Status
	to.Spec.Selector, to.Spec.IgnoredPodSelector = boundedSelector(from.Spec.Selector), boundedSelector(from.Spec.IgnoredPodSelector)
	OwnAnnotations(from, to)
	ignoresScale(from, to)
}

// KeptBudget returns what the cache keeps of a PodUnavailableBudget, in memory of its own.
func KeptBudget(from *policyv1beta1.PodUnavailableBudget) *policyv1beta1.PodUnavailableBudget {
	to := &policyv1beta1.PodUnavailableBudget{}
	keepIdentity(from, to)
	Budget(from, to)
	return to
}

// DistributedBudget keeps a DistributedPodDisruptionBudget in the same way.
func DistributedBudget(from, to *limpetv1alpha1.DistributedPodDisruptionBudget) {
	to.Spec, to.Status = from.Spec, from.Status
	to.Spec.Selector = boundedSelector(from.Spec.Selector)
	OwnAnnotations(from, to)
	distributedIgnoresScale(from, to)
}

// KeptDistributedBudget returns what the cache keeps of a DistributedPodDisruptionBudget, in memory of its own.
func KeptDistributedBudget(from *limpetv1alpha1.DistributedPodDisruptionBudget) *limpetv1alpha1.DistributedPodDisruptionBudget {
	to := &limpetv1alpha1.DistributedPodDisruptionBudget{}
	keepIdentity(from, to)
	DistributedBudget(from, to)
	return to
}

var distributedIgnoresScale = NamedAnnotations[*limpetv1alpha1.DistributedPodDisruptionBudget](64, policyv1beta1.AnnotationIgnoreScale)

var ignoresScale = NamedAnnotations[*policyv1beta1.PodUnavailableBudget](64, policyv1beta1.AnnotationIgnoreScale)

// DisruptionBudgetSelector keeps which pods a PodDisruptionBudget selects.
func DisruptionBudgetSelector(from, to *policyv1.PodDisruptionBudget) {
	to.Spec.Selector = boundedSelector(from.Spec.Selector)
}

func boundedSelector(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	length := 0
	for key, value := range s.MatchLabels {
		length += len(key) + len(value)
	}
	for _, r := range s.MatchExpressions {
		length += len(r.Key) + len(r.Operator)
		for _, value := range r.Values {
			length += len(value)
		}
	}
	if length > longestSelector {
		return tooLong
	}
	return s
}
