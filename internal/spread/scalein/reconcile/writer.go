package reconcile

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// kruiseManager is the name with which OpenKruise's controllers write fields.
const kruiseManager = "kruise-manager"

// costWriter keeps that OpenKruise wrote the deletion cost of a pod: the entry of its managed
// fields, without the fields. A pod whose cost Limpet wrote, or which has none, needs no entry.
func costWriter(from, to *corev1.Pod) {
	_, costs := from.Annotations[annotationCost]
	_, marked := from.Annotations[appsv1beta1.AnnotationDeletionCost]
	if costs && !marked && writtenBy(from, kruiseManager) {
		to.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: kruiseManager}}
	}
}

// byKruise reports whether OpenKruise wrote the deletion cost of a pod of the cache.
func byKruise(pod *corev1.Pod) bool {
	return len(pod.ManagedFields) == 1 && pod.ManagedFields[0].Manager == kruiseManager
}

// writtenBy reports whether a program wrote the deletion cost of a pod, and no other program did.
// A write by a subresource counts, too: the policy of the controller judges in the same way. Without
// an answer in the managed fields, such as after too many writers, the cost is a user's.
func writtenBy(pod *corev1.Pod, manager string) (wrote bool) {
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		switch {
		case !hasCost(entry.FieldsV1):
		case entry.Manager != manager:
			return false
		default:
			wrote = true
		}
	}
	return wrote
}

// hasCost reports whether a set of fields has the deletion cost.
func hasCost(fields *metav1.FieldsV1) bool {
	if fields == nil {
		return false
	}
	var of struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if err := json.NewDecoder(fields.GetRawReader()).Decode(&of); err != nil {
		return false
	}
	_, has := of.Metadata.Annotations["f:"+annotationCost]
	return has
}
