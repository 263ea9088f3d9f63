package pin

import (
	"slices"
	"strings"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ofPods are the annotations of a pod template.
var ofPods = []string{reservation.RetainAnnotation, reservation.ModeAnnotation}

// ofWorkloads are the annotations of a workload.
var ofWorkloads = []string{
	appsv1beta1.AnnotationAutoGenerate, appsv1beta1.AnnotationRequiredTopology, appsv1beta1.AnnotationPreferredTopology,
	appsv1beta1.AnnotationPodAnnotations, AnnotationReleaseAfter, AnnotationReleaseOn, AnnotationReturnAfter, appsv1beta1.AnnotationScaleIn, appsv1beta1.AnnotationScaleOutLimit, appsv1beta1.AnnotationPartition,
}

// suspectParts are parts of the annotations of a user who may mean Limpet. The match conditions of
// the webhook for workloads have them too.
var suspectParts = []string{"limpet", "kruise", "io.kubernetes.cri/", "reserved-ip-duration", "persistent-pod", "persistent-topology"}

// mostSuspects is how many annotations of an object are compared with the known ones. Users may
// write thousands onto an object.
const mostSuspects = 64

// Suspect tells whether an annotation may be one of Limpet, or a misspelt one.
func Suspect(key string) bool {
	return slices.ContainsFunc(suspectParts, func(part string) bool { return strings.Contains(key, part) })
}

// misspelt returns what is probably meant by an annotation that Limpet does not know; "" for a known one, and for one
// that is like none.
func misspelt(key string) string {
	known := slices.Concat(ofPods, ofWorkloads, []string{AnnotationForget})
	if slices.Contains(known, key) {
		return ""
	}
	if meant := nearest(key, known); meant != "" {
		return meant
	}
	ours := strings.HasPrefix(key, "limpet.dev/")
	_, name, _ := strings.Cut(key, "/")
	for _, k := range known {
		_, own, _ := strings.Cut(k, "/")
		// Names such as "partition" are common words: with another prefix they are not Limpet's.
		if own == name && (ours || strings.HasPrefix(key, "kruise.io/") || strings.Contains(own, "-persistent-") || k == reservation.RetainAnnotation) {
			return k
		}
	}
	return ""
}

// mostTypos is how many signs may be wrong in a word that counts as misspelt.
const mostTypos = 3

// nearest returns the known word from which a word differs least; "" for none that is near.
func nearest(word string, known []string) string {
	best, typos := "", mostTypos+1
	for _, k := range known {
		if max(len(k)-len(word), len(word)-len(k)) > mostTypos {
			continue
		}
		if d := distance(word, k); d < typos {
			best, typos = k, d
		}
	}
	return best
}

// distance is the number of signs to add, remove or replace to make one word of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
