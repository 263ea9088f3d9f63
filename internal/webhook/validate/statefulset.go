package validate

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// StatefulSetPath is the path of the webhook for StatefulSets.
const StatefulSetPath = "/validate-statefulset"

// StatefulSet warns of wrong annotations in a pod template. A warning on the pod itself
// reaches only its controller; a warning on the template reaches the user.
type StatefulSet struct {
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
}

var _ admission.Validator[*appsv1.StatefulSet] = (*StatefulSet)(nil)

// ValidateCreate warns and allows.
func (w *StatefulSet) ValidateCreate(_ context.Context, s *appsv1.StatefulSet) (admission.Warnings, error) {
	_, warnings := reservation.ParseRetentionRequest(s.Spec.Template.Annotations, w.MaxReservation)
	return warnings, nil
}

// ValidateUpdate warns and allows.
func (w *StatefulSet) ValidateUpdate(ctx context.Context, _, after *appsv1.StatefulSet) (admission.Warnings, error) {
	return w.ValidateCreate(ctx, after)
}

// ValidateDelete allows.
func (w *StatefulSet) ValidateDelete(context.Context, *appsv1.StatefulSet) (admission.Warnings, error) {
	return nil, nil
}
