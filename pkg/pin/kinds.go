package pin

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/workload"
)

// setKindsInvalid sets ConditionKindsInvalid on states whose target is of a kind that has
// to be named. Also where the kind still counts, by the last list that made sense: a new
// controller will not know that one.
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
