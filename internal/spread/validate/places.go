package validate

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/review"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// judgePlaces judges which nodes a subset has, as the API server judges these fields of a pod.
// What is accepted here becomes a part of each pod of the subset.
func judgePlaces(s *appsv1beta1.WorkloadSpreadSubset, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.RequiredNodeSelector != nil {
		errs = append(errs, judgeTerm(s.RequiredNodeSelector, true, path.Child("requiredNodeSelector"))...)
	}
	for i, p := range s.PreferredNodeSelector {
		at := path.Child("preferredNodeSelector").Index(i)
		if p.Weight < 1 || p.Weight > 100 {
			errs = append(errs, field.Invalid(at.Child("weight"), p.Weight, "must be 1 to 100"))
		}
		errs = append(errs, judgeTerm(&p.Preference, false, at.Child("preference"))...)
	}
	for i := range s.Tolerations {
		errs = append(errs, judgeToleration(&s.Tolerations[i], path.Child("tolerations").Index(i))...)
	}
	return errs
}

// judgeTerm judges a node selector term. Values that no label can have are refused in a
// required term alone, as the API server does.
func judgeTerm(term *corev1.NodeSelectorTerm, required bool, path *field.Path) field.ErrorList {
	if n := len(term.MatchExpressions) + len(term.MatchFields); n > review.MostRequirements {
		return field.ErrorList{field.TooMany(path, n, review.MostRequirements)}
	}
	var errs field.ErrorList
	for i, r := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if len(r.Values) > review.MostValues {
			errs = append(errs, field.TooMany(at.Child("values"), len(r.Values), review.MostValues))
			continue
		}
		errs = append(errs, judgeNodeLabel(r, required, at)...)
	}
	for i, r := range term.MatchFields {
		errs = append(errs, judgeNodeField(r, path.Child("matchFields").Index(i))...)
	}
	return errs
}

func judgeNodeLabel(r corev1.NodeSelectorRequirement, required bool, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(r.Key, path.Child("key"))
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, fmt.Sprintf("name at least one value, because the operator is %s", r.Operator)))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, fmt.Sprintf("must be empty, because the operator is %s", r.Operator)))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, fmt.Sprintf("name one number, because the operator is %s", r.Operator)))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), r.Operator, []corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
			corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
		}))
	}
	for i, value := range r.Values {
		for _, problem := range validation.IsValidLabelValue(value) {
			if required {
				errs = append(errs, field.Invalid(values.Index(i), review.Short(value), problem))
			}
		}
	}
	return errs
}

func judgeNodeField(r corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	if r.Key != metav1.ObjectNameField {
		return field.ErrorList{field.NotSupported(path.Child("key"), review.Short(r.Key), []string{metav1.ObjectNameField})}
	}
	if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
		return field.ErrorList{field.NotSupported(path.Child("operator"), r.Operator,
			[]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn})}
	}
	if len(r.Values) != 1 {
		return field.ErrorList{field.Required(path.Child("values"), "name one node")}
	}
	var errs field.ErrorList
	for _, problem := range apivalidation.NameIsDNSSubdomain(r.Values[0], false) {
		errs = append(errs, field.Invalid(path.Child("values").Index(0), review.Short(r.Values[0]), problem))
	}
	return errs
}

func judgeToleration(t *corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists without a key, which tolerates all taints"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), review.Short(t.Value), problem))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), review.Short(t.Value), "must be empty, because the operator is Exists"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			errs = append(errs, field.Invalid(path.Child("value"), review.Short(t.Value), fmt.Sprintf("must be a number, because the operator is %s", t.Operator)))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect,
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute while tolerationSeconds is set"))
	}
	return errs
}
