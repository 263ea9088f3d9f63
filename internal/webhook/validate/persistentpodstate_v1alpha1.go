package validate

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// FormerPersistentPodStatePath is the path of the webhook for PersistentPodStates of v1alpha1.
const FormerPersistentPodStatePath = "/validate-persistentpodstate-v1alpha1"

// FormerPersistentPodState judges v1alpha1 by the same rules, and names fields as v1alpha1
// does.
type FormerPersistentPodState struct{ *PersistentPodState }

var _ admission.Validator[*v1alpha1.PersistentPodState] = FormerPersistentPodState{}

// ValidateCreate names every field that is wrong.
func (w FormerPersistentPodState) ValidateCreate(ctx context.Context, s *v1alpha1.PersistentPodState) (admission.Warnings, error) {
	var hub appsv1beta1.PersistentPodState
	if err := s.ConvertTo(&hub); err != nil {
		return nil, err
	}
	errs, err := w.judgeNew(ctx, &hub)
	return w.warnings(ctx, &hub), orInvalid(err, s.Name, former(errs))
}

// former gives fields their names of v1alpha1.
func former(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		e.Field = strings.Replace(e.Field, ".keys", ".nodeTopologyKeys", 1)
	}
	return errs
}

// ValidateUpdate judges only changes: objects that are older than a rule stay valid.
func (w FormerPersistentPodState) ValidateUpdate(ctx context.Context, before, after *v1alpha1.PersistentPodState) (admission.Warnings, error) {
	var was, is appsv1beta1.PersistentPodState
	if err := errors.Join(before.ConvertTo(&was), after.ConvertTo(&is)); err != nil {
		return nil, err
	}
	if pin.Unchanged(&was, &is) {
		return nil, nil
	}
	errs, err := w.judge(ctx, &is, nil)
	return w.warnings(ctx, &is), orInvalid(err, is.Name, former(errs))
}

// ValidateDelete allows every deletion.
func (w FormerPersistentPodState) ValidateDelete(context.Context, *v1alpha1.PersistentPodState) (admission.Warnings, error) {
	return nil, nil
}
