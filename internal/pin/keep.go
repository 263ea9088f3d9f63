package pin

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// AnnotationKeepFrom on a pod names the kind of the object from which the pod's limpet.dev/keep was copied. Without it
// that annotation is the pod's own.
const AnnotationKeepFrom = "limpet.dev/keep-from"

// KeepRequest is what a workload or its namespace asks for the pods of the workload. The zero value asks for nothing.
type KeepRequest struct {
	// Value of the annotation limpet.dev/keep.
	Value string
	// From is the kind of the object that has it.
	From string
}

// NearestKeep returns what a workload says, or else its namespace. "0" and a value that is no duration ask for nothing.
func NearestKeep(kind string, workload, namespace map[string]string) KeepRequest {
	keep := KeepRequest{namespace[reservation.KeepAnnotation], "Namespace"}
	if value, ok := workload[reservation.KeepAnnotation]; ok {
		keep = KeepRequest{value, kind}
	}
	if !keeps(keep.Value) {
		return KeepRequest{}
	}
	return keep
}

// anyKeeps reports whether the nearest of a template, its workload and the namespace asks for something.
func anyKeeps(template, workload, namespace map[string]string) bool {
	if value, ok := template[reservation.KeepAnnotation]; ok {
		return keeps(value)
	}
	return NearestKeep("", workload, namespace) != KeepRequest{}
}

// keeps reports whether a value asks for a time above zero.
func keeps(value string) bool {
	retain, _ := reservation.ParseKeep(value, math.MaxInt64-time.Minute)
	return retain > 0
}

// Given returns what a pod that is being created gets. A mark that was copied with a template means nothing.
func (k KeepRequest) Given(pod *corev1.Pod) podpatch.Patch {
	if k == (KeepRequest{}) || reservation.Asks(pod.Annotations) || pod.Spec.HostNetwork {
		return podpatch.Patch{Drop: []string{AnnotationKeepFrom}}
	}
	return podpatch.Patch{Annotations: map[string]string{reservation.KeepAnnotation: k.Value, AnnotationKeepFrom: k.From}}
}

// Changes returns the annotations to change on a running pod, where nil takes one away; nothing for a pod that says
// itself for how long its addresses are kept.
func (k KeepRequest) Changes(pod *corev1.Pod) map[string]*string {
	from, copied := pod.Annotations[AnnotationKeepFrom]
	switch {
	case !copied && reservation.Asks(pod.Annotations) || pod.Spec.HostNetwork:
		return nil
	case k == (KeepRequest{}) && !copied, copied && from == k.From && pod.Annotations[reservation.KeepAnnotation] == k.Value:
		return nil
	case k == (KeepRequest{}):
		return map[string]*string{reservation.KeepAnnotation: nil, AnnotationKeepFrom: nil}
	}
	return map[string]*string{reservation.KeepAnnotation: &k.Value, AnnotationKeepFrom: &k.From}
}
