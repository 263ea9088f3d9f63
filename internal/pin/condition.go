package pin

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// setCondition sets ConditionRecording. Its time is that of the reason, for outlives.
func setCondition(in RecordInput, left int, into *[]metav1.Condition) {
	c := condition(in, left)
	if was := meta.FindStatusCondition(*into, c.Type); was != nil && was.Reason != c.Reason {
		was.LastTransitionTime = c.LastTransitionTime
	}
	meta.SetStatusCondition(into, c)
}

// condition returns ConditionRecording, given how many pods are left out of the records.
func condition(in RecordInput, left int) metav1.Condition {
	c := metav1.Condition{
		Type:               appsv1beta1.ConditionRecording,
		Status:             metav1.ConditionFalse,
		ObservedGeneration: in.State.Generation,
		LastTransitionTime: metav1.NewTime(in.Now),
	}
	target := TargetOf(in.State)
	switch {
	case !in.Kinds.Contains(target):
		c.Reason = appsv1beta1.ReasonTargetUnsupported
		c.Message = strings.TrimSuffix("pods of "+target.Kind+" are not known to return under their names: "+in.Kinds.Problem, ": ")
	case in.Older != "":
		c.Reason, c.Message = appsv1beta1.ReasonTargetTaken, "PersistentPodState "+in.Older+" is older and has the same target"
	case in.Unread != "":
		c.Reason, c.Message = appsv1beta1.ReasonTargetUnread, in.Unread
	case in.Workload == nil:
		c.Reason, c.Message = appsv1beta1.ReasonTargetMissing, target.Kind+" "+target.Name+" does not exist"
	case workload.IsLeftOut(in.State.Namespace):
		c.Reason, c.Message = appsv1beta1.ReasonNamespaceLeftOut, leftOut(in.State.Namespace)
	case left > 0:
		c.Reason = appsv1beta1.ReasonRecordFull
		c.Message = fmt.Sprintf("%d pods are not recorded: with them the object would be too large to be stored; remedy: "+
			"two workloads in the place of one, or fewer of spec.persistentPodAnnotations", left)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, appsv1beta1.ReasonRecording, "pods are recorded when they are Ready"
	}
	if c.Reason == appsv1beta1.ReasonRecording {
		c.Message += weightWarning(in.State)
	}
	return c
}
