package pin

import (
	"cmp"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// AnnotationKeepFrom on a pod names the kind of the object from which the pod's limpet.dev/keep was copied. Without it
// that annotation is the pod's own. On a generated PersistentPodState it says that limpet.dev/keep asks for the object,
// which gives way to one that a user writes. On a pod, "none" says that nothing is kept for it, though its namespace asks.
const AnnotationKeepFrom = "limpet.dev/keep-from"

// KeepFromNone is that value of AnnotationKeepFrom. The policy limpet-kept refuses a pod of a namespace that asks, if no
// webhook has seen the pod.
const KeepFromNone = "none"

// KeepRequest is what a workload or its namespace asks for the pods of the workload. The zero value asks for nothing.
type KeepRequest struct {
	// Value of the annotation limpet.dev/keep.
	Value string
	// From is the kind of the object that has it.
	From string
	// Problem says why a value cannot be read. Then what was asked before stays.
	Problem string
	// Expected tells that the namespace asks, so that a pod that gets nothing needs KeepFromNone.
	Expected bool
}

// AsksFor reports whether the annotations of a namespace ask for its pods, even with a wrong value.
func AsksFor(namespace map[string]string) bool {
	return cmp.Or(namespace[reservation.KeepAnnotation], "0") != "0"
}

// NearestKeep returns what a workload says, or else its namespace. "0" asks for nothing.
func NearestKeep(kind string, of, namespace map[string]string) KeepRequest {
	keep := KeepRequest{Value: namespace[reservation.KeepAnnotation], From: "Namespace"}
	if value, ok := of[reservation.KeepAnnotation]; ok {
		keep = KeepRequest{Value: value, From: kind}
	}
	switch retain, problem := reservation.ParseKeep(reservation.KeepAnnotation, keep.Value, math.MaxInt64-time.Minute); {
	case keep.Value == "":
		return KeepRequest{}
	case problem != "":
		return KeepRequest{From: keep.From, Problem: fmt.Sprintf("%s: %s", keep.From, problem)}
	case retain == 0:
		return KeepRequest{}
	}
	return keep
}

// keep returns what the nearest of the template, the workload and its namespace asks.
func (in GenerateInput) keep() KeepRequest {
	return nearestOf(in.Kind.Kind, in.Template, in.Workload.GetAnnotations(), in.Namespace)
}

// keeps reports whether the nearest of the template, the workload and its namespace asks for something.
func (in AdviceInput) keeps() bool {
	return nearestOf(in.Kind.Kind, in.Template, in.Annotations, in.Namespace).Value != ""
}

func nearestOf(kind string, template, of, namespace map[string]string) KeepRequest {
	if _, ok := template[reservation.KeepAnnotation]; ok {
		return NearestKeep("pod template", template, nil)
	}
	if template[reservation.ModeAnnotation] == reservation.Follow.String() {
		return KeepRequest{Value: reservation.Follow.String(), From: "pod template"}
	}
	return NearestKeep(kind, of, namespace)
}

// KeepOfRunning returns what the workload and its namespace ask for the pods that run. Where the template says that
// nothing is kept, pods of an earlier template get nothing either.
func (in GenerateInput) KeepOfRunning() KeepRequest {
	if _, ok := in.Template[reservation.KeepAnnotation]; ok {
		if keep := in.keep(); keep.Value == "" {
			return keep
		}
	}
	if workload.IsLeftOut(in.Workload.GetNamespace()) { // whose pods no webhook sees
		return KeepRequest{}
	}
	return NearestKeep(in.Kind.Kind, in.Workload.GetAnnotations(), in.Namespace)
}

// Given returns what a pod that is being created gets. A mark that was copied with a template means nothing.
func (k KeepRequest) Given(pod *corev1.Pod) podpatch.Patch {
	switch {
	case reservation.Asks(pod.Annotations), pod.Spec.HostNetwork, k.Value == "" && !k.Expected:
		return podpatch.Patch{Drop: []string{AnnotationKeepFrom}}
	case k.Value == "":
		return podpatch.Patch{Annotations: map[string]string{AnnotationKeepFrom: KeepFromNone}}
	}
	return podpatch.Patch{Annotations: map[string]string{reservation.KeepAnnotation: k.Value, AnnotationKeepFrom: k.From}}
}

// Changes returns the annotations to change on a running pod, where nil takes one away; nothing for a pod that says
// itself for how long its addresses are kept.
func (k KeepRequest) Changes(pod *corev1.Pod) map[string]*string {
	from, copied := pod.Annotations[AnnotationKeepFrom]
	switch {
	case k.Problem != "", !copied && reservation.Asks(pod.Annotations), pod.Spec.HostNetwork:
		return nil
	case k.Value == "" && (!copied || from == KeepFromNone), copied && from == k.From && pod.Annotations[reservation.KeepAnnotation] == k.Value:
		return nil
	case k.Value == "":
		return map[string]*string{reservation.KeepAnnotation: nil, AnnotationKeepFrom: nil}
	}
	return map[string]*string{reservation.KeepAnnotation: &k.Value, AnnotationKeepFrom: &k.From}
}

// yields reports whether a state gives way to another one with its target: limpet.dev/keep asked for it.
func yields(s *appsv1beta1.PersistentPodState) bool {
	return s.Labels[LabelGenerated] == "true" && s.Annotations[AnnotationKeepFrom] != ""
}
