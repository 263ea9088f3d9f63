package validate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// uselessSpread warns of what is allowed and has no effect, or leaves pods without a subset.
func uselessSpread(s *appsv1beta1.WorkloadSpread) admission.Warnings {
	var out admission.Warnings
	if workload.IsLeftOut(s.Namespace) {
		out = append(out, fmt.Sprintf("metadata.namespace: no pod of namespace %s gets a subset, "+
			"because it would wait for the controller; remedy: another namespace", s.Namespace))
	}
	strategy := s.Spec.ScheduleStrategy
	adaptive := ptr.Deref(strategy.Adaptive, appsv1beta1.AdaptiveSpread{})
	reschedules := strategy.Type == appsv1beta1.SpreadAdaptive && ptr.Deref(adaptive.RescheduleCriticalSeconds, 0) > 0
	if strategy.Type == appsv1beta1.SpreadAdaptive && !reschedules {
		out = append(out, "spec.scheduleStrategy: Adaptive does nothing without adaptive.rescheduleCriticalSeconds above 0")
	}
	out = append(out, uselessSubsets(s.Spec.Subsets, reschedules)...)
	for i := range s.Spec.Subsets {
		if problem := unknownIn(s.Spec.Subsets[i].Patch.Raw); problem != "" {
			out = append(out, fmt.Sprintf("spec.subsets[%d].patch: %s; it has no effect unless this Kubernetes knows the field", i, short(problem)))
		}
	}
	return out
}

// uselessSubsets warns of subsets that get no pods, and of a number of pods that all subsets
// together do not take.
func uselessSubsets(subsets []appsv1beta1.WorkloadSpreadSubset, reschedules bool) admission.Warnings {
	last := len(subsets) - 1
	unlimited := slices.IndexFunc(subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool { return s.MaxReplicas == nil })
	if unlimited >= 0 && unlimited < last && !reschedules {
		return admission.Warnings{fmt.Sprintf("spec.subsets[%d] has no maxReplicas and takes all pods, so that the subsets after it get none", unlimited)}
	}
	if unlimited >= 0 || last < 0 || subsets[0].MaxReplicas.Type != intstr.Int {
		return nil
	}
	sum := int64(0)
	for i := range subsets {
		sum += int64(subsets[i].MaxReplicas.IntVal)
	}
	return admission.Warnings{fmt.Sprintf("spec.subsets take %d pods; further pods get no subset; remedy: leave out maxReplicas of the last subset", sum)}
}
