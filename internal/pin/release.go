package pin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/fit"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Annotations on a PersistentPodState that release its pods when their required place cannot
// take them. Without either the pods wait for as long as it takes.
const (
	// AnnotationLeaveAfter is how long a pod waits, as a Go duration such as 10m.
	AnnotationLeaveAfter = "limpet.dev/leave-after"
	// AnnotationLeaveOn is a comma-separated list of release triggers: states of a node in
	// which no pod waits for it.
	AnnotationLeaveOn = "limpet.dev/leave-on"
	// AnnotationReleaseAfter is the former name of leave-after, which stays; limpet.dev/release is about addresses.
	AnnotationReleaseAfter = "limpet.dev/release-after"
	// AnnotationReleaseOn is the former name of leave-on, which stays.
	AnnotationReleaseOn = "limpet.dev/release-on"
)

// leaving returns the name and the text of an annotation about the release of pods. The present name comes first.
func leaving(annotations map[string]string, key, former string) (name, text string, set bool) {
	if text, set = annotations[key]; set {
		return key, text, true
	}
	text, set = annotations[former]
	return former, text, set
}

// ReleaseTrigger is a state of a node that releases pods, as AnnotationLeaveOn names it.
type ReleaseTrigger string

// Release triggers. Several can hold of one node.
const (
	TriggerDeleted      ReleaseTrigger = "deleted"        // no node is in the required place
	TriggerOutOfService ReleaseTrigger = "out-of-service" // an operator said that the node is shut down for good
	TriggerNotReady     ReleaseTrigger = "not-ready"      // the node's kubelet is silent or not ready
	TriggerCordoned     ReleaseTrigger = "cordoned"       // the node takes no new pods
	TriggerTainted      ReleaseTrigger = "tainted"        // the node has a taint that the pod does not tolerate
	// TriggerUnstarted is a state of a pod that has a node: the node fell silent before it
	// reported a start of the pod. The pod is then deleted by force.
	TriggerUnstarted ReleaseTrigger = "unstarted"
)

var triggers = []ReleaseTrigger{TriggerDeleted, TriggerOutOfService, TriggerNotReady, TriggerCordoned, TriggerTainted, TriggerUnstarted}

// Release says when pods are released from their required place.
type Release struct {
	// After is how long a pod waits; 0 for as long as it takes.
	After time.Duration
	// On are the triggers that release a pod at once.
	On []ReleaseTrigger
}

// ParseRelease reads both annotations of a PersistentPodState. A malformed annotation is
// reported and ignored: it is safer that a pod waits than that it runs without its data.
func ParseRelease(annotations map[string]string) (Release, field.ErrorList) {
	var r Release
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if key, text, ok := leaving(annotations, AnnotationLeaveAfter, AnnotationReleaseAfter); ok {
		after, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || after < time.Second {
			errs = append(errs, field.Invalid(path.Key(key), text,
				"must be a duration of at least one second, such as 90s, 10m or 1h30m"))
		} else {
			r.After = after
		}
	}
	if key, text, ok := leaving(annotations, AnnotationLeaveOn, AnnotationReleaseOn); ok {
		for _, word := range split(text) {
			if trigger := ReleaseTrigger(word); slices.Contains(triggers, trigger) {
				r.On = append(r.On, trigger)
			} else {
				errs = append(errs, field.NotSupported(path.Key(key), trigger, triggers))
			}
		}
		if len(split(text)) == 0 {
			errs = append(errs, field.Required(path.Key(key), fmt.Sprintf("name at least one of %v, or remove it", triggers)))
		}
	}
	return r, errs
}

// Releases reports whether a pod may have been released a moment ago: pods of the state are
// released after a time, or the pod waited and a constraint of its own may have won.
func Releases(s *appsv1beta1.PersistentPodState, pod string) bool {
	if s == nil || s.Spec.RequiredPersistentTopology == nil {
		return false
	}
	_, after, _ := leaving(s.Annotations, AnnotationLeaveAfter, AnnotationReleaseAfter)
	return after != "" || s.Status.PodStates[pod].Waiting != nil
}

// triggersOf returns everything that keeps a node from taking a pod.
func triggersOf(node *corev1.Node, pod *corev1.Pod) []ReleaseTrigger {
	var found []ReleaseTrigger
	if !fit.Ready(node) {
		found = append(found, TriggerNotReady)
	}
	for _, taint := range fit.Untolerated(node, pod) {
		switch taint.Key {
		case corev1.TaintNodeUnschedulable:
			found = append(found, TriggerCordoned)
		case corev1.TaintNodeOutOfService:
			found = append(found, TriggerOutOfService)
		case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
			found = append(found, TriggerNotReady)
		default:
			found = append(found, TriggerTainted)
		}
	}
	return found
}
