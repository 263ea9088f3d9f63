package pin

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// setKindsInvalid sets ConditionKindsInvalid on states whose kind of target must be named. It
// does so also while the last valid list keeps the kind in force: after a restart the
// controller does not know that list.
func setKindsInvalid(in RecordInput, conditions *[]metav1.Condition) {
	if in.Kinds.Problem == "" || workload.StatefulSet(TargetOf(in.State).GroupKind()) {
		meta.RemoveStatusCondition(conditions, appsv1beta1.ConditionKindsInvalid)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               appsv1beta1.ConditionKindsInvalid,
		Status:             metav1.ConditionTrue,
		Reason:             appsv1beta1.ReasonKindsInvalid,
		Message:            in.Kinds.Problem + "; remedy: write it as " + workload.KindsExample,
		ObservedGeneration: in.State.Generation,
		LastTransitionTime: metav1.NewTime(in.Now),
	})
}
