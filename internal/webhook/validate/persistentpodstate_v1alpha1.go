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

// FormerPersistentPodStatePath is where PersistentPodStates of v1alpha1 are sent.
const FormerPersistentPodStatePath = "/validate-persistentpodstate-v1alpha1"

// FormerPersistentPodState holds v1alpha1 to the same rules, and names its fields as its
// user wrote them.
type FormerPersistentPodState struct{ *PersistentPodState }

var _ admission.Validator[*v1alpha1.PersistentPodState] = FormerPersistentPodState{}

// ValidateCreate names every field that is wrong.
func (w FormerPersistentPodState) ValidateCreate(ctx context.Context, s *v1alpha1.PersistentPodState) (admission.Warnings, error) {
	var hub appsv1beta1.PersistentPodState
	if err := s.ConvertTo(&hub); err != nil {
		return nil, err
	}
	errs, err := w.judgeNew(ctx, &hub)
	return pin.Warnings(&hub), orInvalid(err, s.Name, former(errs))
}

// former names fields as v1alpha1 does.
func former(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		e.Field = strings.Replace(e.Field, ".keys", ".nodeTopologyKeys", 1)
	}
	return errs
}

// ValidateUpdate leaves alone what was stored before these rules, until it changes.
func (w FormerPersistentPodState) ValidateUpdate(ctx context.Context, before, after *v1alpha1.PersistentPodState) (admission.Warnings, error) {
	var was, is appsv1beta1.PersistentPodState
	if err := errors.Join(before.ConvertTo(&was), after.ConvertTo(&is)); err != nil {
		return nil, err
	}
	if pin.Unchanged(&was, &is) {
		return nil, nil
	}
	errs, err := w.judge(ctx, &is, nil)
	return pin.Warnings(&is), orInvalid(err, is.Name, former(errs))
}

// ValidateDelete allows every deletion.
func (w FormerPersistentPodState) ValidateDelete(context.Context, *v1alpha1.PersistentPodState) (admission.Warnings, error) {
	return nil, nil
}
