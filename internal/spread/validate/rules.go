package validate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// spreadKinds are the kinds that a WorkloadSpread may have as its target, of the API groups
// whose kinds are all known. Kinds of other groups are accepted.
var spreadKinds = map[string][]string{
	"":               {},
	"apps":           {"Deployment", "ReplicaSet", "StatefulSet"},
	"batch":          {"Job"},
	"apps.kruise.io": {"CloneSet", "StatefulSet"},
}

// judgeSpread returns what is wrong with a WorkloadSpread beyond the rules of the CRD. A user may
// have named the kind of its target.
func judgeSpread(s *appsv1beta1.WorkloadSpread, named bool) field.ErrorList {
	spec := field.NewPath("spec")
	errs := judgeSpreadTarget(s.Spec.TargetReference, named, spec.Child("targetRef"))
	errs = append(errs, judgeFilter(s.Spec.TargetFilter, spec.Child("targetFilter"))...)
	errs = append(errs, judgeSubsets(s.Spec.Subsets, spec.Child("subsets"))...)
	errs = append(errs, judgeStrategy(s, spec.Child("scheduleStrategy"))...)
	if value, set := s.Annotations[appsv1beta1.AnnotationSpreadFailure]; set && value != appsv1beta1.SpreadOpen && value != appsv1beta1.SpreadClosed {
		errs = append(errs, field.NotSupported(review.Annotation(appsv1beta1.AnnotationSpreadFailure), review.Short(value),
			[]string{appsv1beta1.SpreadOpen, appsv1beta1.SpreadClosed}))
	}
	return errs
}

func judgeSpreadTarget(ref appsv1beta1.TargetReference, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Version == "" {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, "must be a group and a version, such as apps/v1"))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the workload"))
	}
	if kinds, known := spreadKinds[gv.Group]; ref.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), "name the kind of the workload, such as Deployment"))
	} else if known && !named && !slices.Contains(kinds, ref.Kind) {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind+" of "+ref.APIVersion, []string{
			"Deployment, ReplicaSet and StatefulSet of apps/v1", "Job of batch/v1", "CloneSet of apps.kruise.io/v1alpha1",
			"StatefulSet of apps.kruise.io/v1beta1", "kinds of other API groups",
			"kinds that the ConfigMap " + workloads.KindsConfigMap + " names in " + workloads.SpreadKindsKey,
		}))
	}
	return errs
}

func judgeFilter(f *appsv1beta1.TargetFilter, path *field.Path) field.ErrorList {
	if f == nil {
		return nil
	}
	var errs field.ErrorList
	if f.Selector != nil {
		errs = review.Selector(f.Selector, path.Child("selector"))
	}
	for i, text := range f.ReplicasPathList {
		if slices.Contains(strings.Split(text, "."), "") {
			errs = append(errs, field.Invalid(path.Child("replicasPathList").Index(i), text,
				"must be names or numbers separated by dots, such as spec.replicas or spec.groups.0.replicas"))
		}
	}
	return errs
}

// judgeSubsets judges the subsets by themselves and together.
func judgeSubsets(subsets []appsv1beta1.WorkloadSpreadSubset, path *field.Path) field.ErrorList {
	if len(subsets) == 0 {
		return field.ErrorList{field.Required(path, "name at least one subset")}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range subsets {
		s, at := &subsets[i], path.Index(i)
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "name the subset"))
		case s.Name == appsv1beta1.SubsetOfNone:
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, "stands for pods that belong to no subset; remedy: another name"))
		case names[s.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), s.Name))
		}
		names[s.Name] = true
		errs = append(errs, judgePlaces(s, at)...)
		errs = append(errs, judgePatch(s.Patch.Raw, at.Child("patch"))...)
	}
	return append(errs, judgeMaxima(subsets, path)...)
}

// judgeMaxima judges maxReplicas of all subsets: each is a number, or each is a percentage.
// Percentages add up to 100 unless the last subset takes what is left.
func judgeMaxima(subsets []appsv1beta1.WorkloadSpreadSubset, path *field.Path) field.ErrorList {
	var first *intstr.IntOrString
	sum := 0
	for i := range subsets {
		most, at := subsets[i].MaxReplicas, path.Index(i).Child("maxReplicas")
		if most == nil {
			continue
		}
		if first == nil {
			first = most
		}
		switch percent, ok := percentOf(most); {
		case most.Type != first.Type:
			return field.ErrorList{field.Invalid(at, most.String(), "must be a number in all subsets, or a percentage in all subsets")}
		case most.Type == intstr.Int && most.IntVal < 0, most.Type == intstr.String && !ok:
			return field.ErrorList{field.Invalid(at, review.Short(most.String()), "must be a number from 0 on, or a percentage from 0% to 100%")}
		default:
			sum += percent
		}
		if sum > 100 {
			return field.ErrorList{field.Invalid(at, most.String(),
				fmt.Sprintf("maxReplicas of the subsets up to this one add up to %d%%; remedy: 100%% at most", sum))}
		}
	}
	if first != nil && first.Type == intstr.String && sum < 100 && subsets[len(subsets)-1].MaxReplicas != nil {
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d%%", sum),
			"maxReplicas of all subsets must add up to 100%; remedy: raise one, or leave out maxReplicas of the last subset, which takes the rest")}
	}
	return nil
}

// percentOf returns the number of a percentage; 0 and false of anything else.
func percentOf(value *intstr.IntOrString) (int, bool) {
	text, percent := strings.CutSuffix(value.StrVal, "%")
	if value.Type != intstr.String || !percent {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return max(n, 0), err == nil && n >= 0 && n <= 100
}

func judgeStrategy(s *appsv1beta1.WorkloadSpread, path *field.Path) field.ErrorList {
	strategy, subsets := s.Spec.ScheduleStrategy, s.Spec.Subsets
	var errs field.ErrorList
	if t := strategy.Type; t != "" && t != appsv1beta1.SpreadFixed && t != appsv1beta1.SpreadAdaptive {
		errs = append(errs, field.NotSupported(path.Child("type"), t, []appsv1beta1.SpreadStrategy{appsv1beta1.SpreadFixed, appsv1beta1.SpreadAdaptive}))
	}
	a := strategy.Adaptive
	if a == nil {
		return errs
	}
	if strategy.Type != appsv1beta1.SpreadAdaptive {
		errs = append(errs, field.Invalid(path.Child("type"), strategy.Type, "must be Adaptive while scheduleStrategy.adaptive is set"))
	}
	if n := len(subsets); n > 1 && subsets[n-1].MaxReplicas != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "subsets").Index(n-1).Child("maxReplicas"),
			"the last subset takes the pods that other subsets cannot while scheduleStrategy.adaptive is set; remedy: leave out maxReplicas"))
	}
	if v := a.RescheduleCriticalSeconds; v != nil && *v < 0 {
		errs = append(errs, field.Invalid(path.Child("adaptive", "rescheduleCriticalSeconds"), *v, "must be 0 or more"))
	}
	if v := a.RecoverySeconds; v != nil && *v < 1 {
		errs = append(errs, field.Invalid(path.Child("adaptive", "recoverySeconds"), *v, "must be 1 or more"))
	}
	return errs
}

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
			out = append(out, fmt.Sprintf("spec.subsets[%d].patch: %s; it has no effect unless this Kubernetes knows the field", i, review.Short(problem)))
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
