package pin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/pkg/fit"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Annotations on a PersistentPodState that let its pods go elsewhere when their required
// place cannot take them. Without either they wait for as long as it takes.
const (
	// AnnotationReleaseAfter is how long a pod waits, as a Go duration such as 10m.
	AnnotationReleaseAfter = "limpet.dev/release-after"
	// AnnotationReleaseOn is a comma-separated list of fates of nodes for which no pod waits.
	AnnotationReleaseOn = "limpet.dev/release-on"
)

// Fate is what keeps a node from taking a pod, in the words of AnnotationReleaseOn.
type Fate string

// Fates. A node can have several.
const (
	FateDeleted      Fate = "deleted"        // no node is where the pod must be
	FateOutOfService Fate = "out-of-service" // an operator said that the node is shut down for good
	FateNotReady     Fate = "not-ready"      // its kubelet is silent or not ready
	FateCordoned     Fate = "cordoned"       // it takes no new pods
	FateTainted      Fate = "tainted"        // it has a taint that the pod does not tolerate
)

var fates = []Fate{FateDeleted, FateOutOfService, FateNotReady, FateCordoned, FateTainted}

// Release is when pods are let go from their required place.
type Release struct {
	// After this time; 0 for never.
	After time.Duration
	// On each of these, at once.
	On []Fate
}

// ParseRelease reads both annotations of a PersistentPodState. What is wrong is named
// and counts as not said: a pod rather waits than go where its data is not.
func ParseRelease(annotations map[string]string) (Release, field.ErrorList) {
	var r Release
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if text, ok := annotations[AnnotationReleaseAfter]; ok {
		after, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || after < time.Second {
			errs = append(errs, field.Invalid(path.Key(AnnotationReleaseAfter), text,
				"must be a duration of at least one second, such as 90s, 10m or 1h30m"))
		} else {
			r.After = after
		}
	}
	if text, ok := annotations[AnnotationReleaseOn]; ok {
		for _, word := range split(text) {
			if fate := Fate(word); slices.Contains(fates, fate) {
				r.On = append(r.On, fate)
			} else {
				errs = append(errs, field.NotSupported(path.Key(AnnotationReleaseOn), fate, fates))
			}
		}
		if len(split(text)) == 0 {
			errs = append(errs, field.Required(path.Key(AnnotationReleaseOn), fmt.Sprintf("name at least one of %v, or remove it", fates)))
		}
	}
	return r, errs
}

// Releases tells whether a pod may have been let go a moment ago: its state's pods are
// after a while, or it has waited, and a constraint of its own may have won.
func Releases(s *appsv1beta1.PersistentPodState, pod string) bool {
	return s != nil && s.Spec.RequiredPersistentTopology != nil &&
		(s.Annotations[AnnotationReleaseAfter] != "" || s.Status.PodStates[pod].Waiting != nil)
}

// fatesOf are all that keep a node from taking a pod.
func fatesOf(node *corev1.Node, pod *corev1.Pod) []Fate {
	var found []Fate
	if !fit.Ready(node) {
		found = append(found, FateNotReady)
	}
	for _, taint := range fit.Untolerated(node, pod) {
		switch taint.Key {
		case corev1.TaintNodeUnschedulable:
			found = append(found, FateCordoned)
		case corev1.TaintNodeOutOfService:
			found = append(found, FateOutOfService)
		case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
			found = append(found, FateNotReady)
		default:
			found = append(found, FateTainted)
		}
	}
	return found
}
