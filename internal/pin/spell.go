package pin

import (
	"slices"
	"strings"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ofPods are the annotations of a pod template.
var ofPods = []string{reservation.RetainAnnotation, reservation.ModeAnnotation, reservation.OwnerAnnotation}

var (
	// ofTopology are the annotations of a workload that tell the spec of its generated object.
	ofTopology = []string{appsv1beta1.AnnotationRequiredTopology, appsv1beta1.AnnotationPreferredTopology, appsv1beta1.AnnotationPodAnnotations}
	// carried are those that its generated object gets.
	carried = []string{AnnotationLeaveAfter, AnnotationLeaveOn, AnnotationReleaseAfter, AnnotationReleaseOn, AnnotationReturnAfter}
	// ofReturn are those about the return of pods, and ofWorkloads all.
	ofReturn    = slices.Concat([]string{appsv1beta1.AnnotationAutoGenerate}, ofTopology, carried)
	ofWorkloads = slices.Concat(ofReturn, []string{appsv1beta1.AnnotationScaleIn, appsv1beta1.AnnotationScaleOutLimit, appsv1beta1.AnnotationPartition})
)

const ownPrefix = "limpet.dev/"

// ownNames are the names of all features under the own prefix.
var ownNames = strings.Fields(`
	budgets budgets-idle-since deletion-cost drain-first expected-updated-replicas failure-policy forget from-workload generated
	home home-subset ignored-pod-selector in-service keep keep-from keep-place leave-after leave-on lifecycle loan may-return node nudged owner partition peers pin pinned-node protect-unready
	recalled-life recalled-node release release-after release-on replace-disruption-budgets required-place retention
	return-after scale-in-order scale-out scale-out-limit selects-no-pod spreads spreads-idle-since stable-seconds
	unpinned v1beta1-annotations vectors`)

// stems are parts of the names with other prefixes, which no other program has.
var stems = []string{"reserved-ip-dur", "persistent-pod", "persistent-topology"}

// unknown reports whether an annotation looks like one of Limpet and is none.
func unknown(key string) bool {
	if name, own := strings.CutPrefix(key, ownPrefix); own {
		return !slices.Contains(ownNames, name)
	}
	return !slices.Contains(ofPods, key) && !slices.Contains(ofWorkloads, key) && key != appsv1beta1.AnnotationInjected &&
		slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(key, stem) })
}
