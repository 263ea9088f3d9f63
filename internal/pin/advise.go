package pin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ReasonIgnored names annotations of a workload that do nothing in the status of kubectl-limpet.
const ReasonIgnored = "AnnotationIgnored"

// AdviceInput are the facts from which advice about a workload is given.
type AdviceInput struct {
	Kind schema.GroupVersionKind
	// Returns tells that pods of the kind come back under their names.
	Returns bool
	// Annotations are those of the workload, Template those of its pod template, Namespace those of its namespace.
	Annotations, Template, Namespace map[string]string
	// Targeted tells that a PersistentPodState names the workload.
	Targeted bool
	// Missing are the topology keys that no node has as a label.
	Missing []string
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
}

const (
	// mostAdvice is how many mistakes are told at a time. The API server cuts longer answers.
	mostAdvice = 8
	// longestWord is how much of a user's text is repeated.
	longestWord = 100
)

// Advise returns what of a workload's annotations does nothing, or not what its user may expect,
// each with a remedy. It never concerns whether the workload is accepted.
func Advise(in AdviceInput) []string {
	var out []string
	out = append(out, unknownAdvice("metadata.annotations", in.Annotations)...)
	out = append(out, unknownAdvice("the annotations of the pod template", in.Template)...)
	out = append(out, drainAdvice(in)...)
	switch {
	case !in.Returns:
		out = append(out, unstableAdvice(in)...)
	default:
		out = append(out, misplaced(in)...)
		out = append(out, generationAdvice(in)...)
		out = append(out, retentionAdvice(in)...)
		out = append(out, ownerAdvice(in)...)
		out = append(out, KeyWarnings(in.Missing)...)
	}
	if more := len(out) - mostAdvice; more > 0 {
		out = append(out[:mostAdvice], fmt.Sprintf("and %d further annotations", more))
	}
	return out
}

// TopologyKeys returns the node label keys that the annotations of a workload name.
func TopologyKeys(annotations map[string]string) []string {
	keys := slices.Concat(split(annotations[appsv1beta1.AnnotationRequiredTopology]), split(annotations[appsv1beta1.AnnotationPreferredTopology]))
	keys = distinct(keys)
	return keys[:min(len(keys), maxKeys)]
}

// unknownAdvice is about annotations that look like those of Limpet and are none.
func unknownAdvice(where string, annotations map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if unknown(key) && len(out) <= mostAdvice {
			out = append(out, fmt.Sprintf("%s: Limpet knows no annotation %s", where, cut(key)))
		}
	}
	return out
}

// drainAdvice is about pods that are out of service before they go.
func drainAdvice(in AdviceInput) []string {
	if _, err := workload.Waits(in.Template); err != nil {
		return []string{"the pod template: " + err.Error()}
	}
	misplaced := setAmong(in.Annotations, []string{policyv1beta1.AnnotationDrainFirst, policyv1beta1.AnnotationLifecycle})
	for i := range misplaced {
		misplaced[i] += " does nothing here; remedy: set it on the pod template"
	}
	return misplaced
}

// unstableAdvice is about a workload whose pods never come back under their names.
func unstableAdvice(in AdviceInput) []string {
	pods := append([]string{reservation.KeepAnnotation}, ofPods...)
	named := setAmong(in.Annotations, pods)
	out := ownerAdvice(in)
	if _, owned := in.Template[reservation.OwnerAnnotation]; !owned {
		named = append(named, setAmong(in.Template, pods)...)
	}
	named = slices.Concat(named, setAmong(in.Annotations, ofReturn), setAmong(in.Template, ofReturn))
	if len(named) == 0 {
		return out
	}
	return append(out, fmt.Sprintf("%s does nothing on a %s: its pods never come back under their names, so that nothing is reserved for them; "+
		"remedy: a StatefulSet, or %s beside %s on the pod template", strings.Join(distinct(named), ", "), in.Kind.Kind,
		reservation.OwnerAnnotation, reservation.KeepAnnotation))
}

// ownerAdvice is about an owner on a pod template.
func ownerAdvice(in AdviceInput) []string {
	owner, asks := in.Template[reservation.OwnerAnnotation]
	request, _ := reservation.ParseRetentionRequest(in.Template, in.MaxReservation)
	switch {
	case !asks:
		return nil
	case in.Returns:
		return []string{fmt.Sprintf("annotation %s does nothing on a %s: its pods come back under their names", reservation.OwnerAnnotation, in.Kind.Kind)}
	case !ownerName(AskedOwner(in.Template)):
		return []string{fmt.Sprintf("annotation %s: %q is no name that an owner can have; remedy: one such as \"db\"", reservation.OwnerAnnotation, cut(owner))}
	case request.Retain == 0:
		return []string{fmt.Sprintf("annotation %s does nothing without a duration; remedy: add %s", reservation.OwnerAnnotation, reservation.KeepAnnotation)}
	}
	return nil
}

// misplaced is about annotations of pods on a workload, and about those of a workload on pods.
func misplaced(in AdviceInput) []string {
	var out []string
	for _, key := range setAmong(in.Annotations, ofPods) {
		if _, set := in.Template[key]; !set {
			out = append(out, fmt.Sprintf("metadata.annotations[%s] does nothing on a %s; remedy: move it to spec.template.metadata.annotations", key, in.Kind.Kind))
		}
	}
	for _, key := range setAmong(in.Template, ofWorkloads) {
		if _, set := in.Annotations[key]; !set {
			out = append(out, fmt.Sprintf("spec.template.metadata.annotations[%s] does nothing on a pod; remedy: move it to metadata.annotations of the %s",
				key, in.Kind.Kind))
		}
	}
	return out
}

// generationAdvice is about annotations that generate no PersistentPodState.
func generationAdvice(in AdviceInput) []string {
	value, set := in.Annotations[appsv1beta1.AnnotationAutoGenerate]
	named := setAmong(in.Annotations, slices.Concat(ofTopology, carried))
	if in.Targeted { // by an object with annotations of its own
		named = setAmong(in.Annotations, carried)
	}
	switch {
	case set && value != "true" && value != "false" && value != "":
		return []string{fmt.Sprintf("annotation %s: %q is not \"true\", so that no PersistentPodState is generated", appsv1beta1.AnnotationAutoGenerate, cut(value))}
	case set && value == "true" && len(TopologyKeys(in.Annotations)) == 0 && !in.keeps():
		return []string{missingTopology}
	case !set && len(named) > 0 && !in.keeps():
		return []string{fmt.Sprintf("annotation %s does nothing without %s: \"true\"", strings.Join(named, ", "), appsv1beta1.AnnotationAutoGenerate)}
	}
	return nil
}

// missingTopology says what the annotation that asks for a PersistentPodState lacks.
var missingTopology = fmt.Sprintf("generation needs annotation %s or %s with at least one key",
	appsv1beta1.AnnotationPreferredTopology, appsv1beta1.AnnotationRequiredTopology)

// retentionAdvice is about requests that keep no address.
func retentionAdvice(in AdviceInput) []string {
	request, out := reservation.ParseRetentionRequest(in.Template, in.MaxReservation)
	if value, set := in.Annotations[reservation.KeepAnnotation]; set {
		if _, warning := reservation.ParseKeep(reservation.KeepAnnotation, value, in.MaxReservation); warning != "" {
			out = append(out, warning)
		}
	} else if problem := NearestKeep("", nil, in.Namespace).Problem; problem != "" {
		out = append(out, problem)
	}
	asked := in.Annotations[appsv1beta1.AnnotationAutoGenerate] != "" // another advice says what is wrong with that
	switch {
	case request.Retain > 0 && !in.Targeted && !asked && !in.keeps():
		out = append(out, fmt.Sprintf("annotation %s reserves addresses on the node of a pod, and nothing brings the pod back to that node; "+
			"remedy: %s: \"10m\" instead, which does both, or a PersistentPodState", reservation.RetainAnnotation, reservation.KeepAnnotation))
	case request.Retain == 0 && request.Mode == reservation.Required && !in.keeps():
		out = append(out, fmt.Sprintf("annotation %s: %s does nothing without a duration; remedy: add %s",
			reservation.ModeAnnotation, reservation.Required, reservation.KeepAnnotation))
	}
	return out
}

// KeyWarnings are about topology keys that no node has.
func KeyWarnings(missing []string) []string {
	out := make([]string, 0, len(missing))
	for _, key := range missing {
		out = append(out, fmt.Sprintf("no node has the label %s: no place is kept by it", cut(key)))
	}
	return out
}

// setAmong returns the keys that some annotations have, in order.
func setAmong(annotations map[string]string, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, set := annotations[key]
		return !set
	})
}

// cut shortens a user's text, which may be very long.
func cut(text string) string {
	if len(text) <= longestWord {
		return text
	}
	return strings.ToValidUTF8(text[:longestWord], "") + "…"
}
