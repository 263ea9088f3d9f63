package validate

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// FormerPodUnavailableBudgetPath is the path of the webhook for PodUnavailableBudgets of
// v1alpha1.
const FormerPodUnavailableBudgetPath = "/validate-podunavailablebudget-v1alpha1"

// FormerPodUnavailableBudget judges v1alpha1 by the same rules, and names fields as v1alpha1
// does. It also refuses annotations that cannot be read as fields.
type FormerPodUnavailableBudget struct{ *PodUnavailableBudget }

var _ admission.Validator[*v1alpha1.PodUnavailableBudget] = FormerPodUnavailableBudget{}

// ValidateCreate names every field that is wrong.
func (w FormerPodUnavailableBudget) ValidateCreate(ctx context.Context, b *v1alpha1.PodUnavailableBudget) (admission.Warnings, error) {
	var hub policyv1beta1.PodUnavailableBudget
	if err := b.ConvertTo(&hub); err != nil {
		return nil, err
	}
	return w.create(ctx, &hub, judgeFormer(b, &hub), nil)
}

// ValidateUpdate judges only changes, as for v1beta1.
func (w FormerPodUnavailableBudget) ValidateUpdate(ctx context.Context, before, after *v1alpha1.PodUnavailableBudget) (admission.Warnings, error) {
	var was, is policyv1beta1.PodUnavailableBudget
	if err := errors.Join(before.ConvertTo(&was), after.ConvertTo(&is)); err != nil {
		return nil, err
	}
	return w.update(ctx, &was, &is, newErrors(judgeFormer(before, &was), judgeFormer(after, &is)), nil)
}

// judgeFormer judges a budget of v1alpha1, and what it is in v1beta1.
func judgeFormer(b *v1alpha1.PodUnavailableBudget, hub *policyv1beta1.PodUnavailableBudget) field.ErrorList {
	errs := judgeBudget(hub)
	ignored := annotation(v1alpha1.AnnotationIgnoredPodSelector).String()
	for _, e := range errs {
		if rest, is := strings.CutPrefix(e.Field, "spec.ignoredPodSelector"); is {
			e.Field = ignored + rest
		}
	}
	for _, key := range fieldAnnotations {
		value, set := b.Annotations[key]
		if !set {
			continue
		}
		if err := v1alpha1.Parse(key, value, &policyv1beta1.PodUnavailableBudgetSpec{}); err != nil {
			errs = append(errs, field.Invalid(annotation(key), short(value), err.Error()))
		}
	}
	return errs
}

// ValidateDelete allows every deletion.
func (w FormerPodUnavailableBudget) ValidateDelete(context.Context, *v1alpha1.PodUnavailableBudget) (admission.Warnings, error) {
	return nil, nil
}
