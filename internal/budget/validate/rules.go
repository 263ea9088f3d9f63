package validate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// fieldAnnotations are the annotations of v1alpha1 that are fields of v1beta1.
var fieldAnnotations = []string{
	v1alpha1.AnnotationProtectOperations, v1alpha1.AnnotationProtectTotalReplicas, v1alpha1.AnnotationIgnoredPodSelector,
}

// judgeBudget returns what is wrong with a budget beyond the rules of the CRD.
func judgeBudget(b *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	spec := field.NewPath("spec")
	errs := judgeSelector(b.Spec.Selector, spec.Child("selector"))
	errs = append(errs, judgeSelector(b.Spec.IgnoredPodSelector, spec.Child("ignoredPodSelector"))...)
	if b.Spec.TargetReference != nil {
		errs = append(errs, judgeTarget(*b.Spec.TargetReference, spec.Child("targetRef"))...)
	}
	_, invalid := budget.ReadRules(b)
	for _, i := range invalid {
		errs = append(errs, field.Invalid(review.Annotation(i.Name), review.Short(b.Annotations[i.Name]), i.Error()))
	}
	return append(errs, judgeSize(b)...)
}

// judgeSelector refuses a selector that cannot be read, or that would select every pod.
func judgeSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(path, "an empty selector would select every pod; name a label in matchLabels or matchExpressions")}
	}
	return review.Selector(s, path)
}

func judgeTarget(ref policyv1beta1.TargetReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); ref.APIVersion == "" {
		errs = append(errs, field.Required(path.Child("apiVersion"), "name the group and version of the workload, such as apps/v1"))
	} else if err != nil || gv.Version == "" {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, "must be a group and a version, such as apps/v1"))
	}
	if ref.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), "name the kind of the workload, such as Deployment"))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the workload"))
	}
	return errs
}

// judgeSize refuses annotations that could not be shown in v1alpha1, where fields are
// annotations too: the API server would answer no list request of v1alpha1 any more.
func judgeSize(b *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	size, err := v1alpha1.SizeOf(b)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), nil, err.Error())}
	}
	if size <= v1alpha1.MaxAnnotations {
		return nil
	}
	return field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", v1alpha1.MaxAnnotations)}
}

// judgeFields judges the annotations of a budget that are fields of v1beta1. Those that the conversion could read are
// fields by now.
func judgeFields(b *policyv1beta1.PodUnavailableBudget) (errs field.ErrorList) {
	for _, key := range fieldAnnotations {
		value, set := b.Annotations[key]
		if !set {
			continue
		}
		if err := v1alpha1.Parse(key, value, &policyv1beta1.PodUnavailableBudgetSpec{}); err != nil {
			errs = append(errs, field.Invalid(review.Annotation(key), review.Short(value), err.Error()))
		}
	}
	return errs
}
