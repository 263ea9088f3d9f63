package validate

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// FormerWorkloadSpreadPath is the path of the webhook for WorkloadSpreads of v1alpha1.
const FormerWorkloadSpreadPath = "/validate-workloadspread-v1alpha1"

// FormerWorkloadSpread judges v1alpha1 by the same rules, and names fields as v1alpha1 does.
type FormerWorkloadSpread struct{ *WorkloadSpread }

var _ admission.Validator[*v1alpha1.WorkloadSpread] = FormerWorkloadSpread{}

// ValidateCreate names every field that is wrong.
func (w FormerWorkloadSpread) ValidateCreate(ctx context.Context, s *v1alpha1.WorkloadSpread) (admission.Warnings, error) {
	var hub appsv1beta1.WorkloadSpread
	if err := s.ConvertTo(&hub); err != nil {
		return nil, err
	}
	return w.create(ctx, &hub, formerNames)
}

// formerNames gives fields of subsets their names of v1alpha1.
func formerNames(errs field.ErrorList) field.ErrorList {
	names := strings.NewReplacer("].requiredNodeSelector", "].requiredNodeSelectorTerm", "].preferredNodeSelector", "].preferredNodeSelectorTerms")
	for _, e := range errs {
		e.Field = names.Replace(e.Field)
	}
	return errs
}

// ValidateUpdate judges only changes, as for v1beta1.
func (w FormerWorkloadSpread) ValidateUpdate(ctx context.Context, before, after *v1alpha1.WorkloadSpread) (admission.Warnings, error) {
	var was, is appsv1beta1.WorkloadSpread
	if err := errors.Join(before.ConvertTo(&was), after.ConvertTo(&is)); err != nil {
		return nil, err
	}
	return w.update(ctx, &was, &is, formerNames)
}

// ValidateDelete allows every deletion.
func (w FormerWorkloadSpread) ValidateDelete(context.Context, *v1alpha1.WorkloadSpread) (admission.Warnings, error) {
	return nil, nil
}
