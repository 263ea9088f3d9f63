package pin

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// AnnotationForget on a PersistentPodState gives recorded places up. The value is a comma-separated list of UIDs of
// records. A UID means one life of a pod, so a value that stays does nothing to later records.
const AnnotationForget = "limpet.dev/forget"

const (
	// MostForgotten is how many UIDs fit into a value of AnnotationForget, with the commas between them.
	MostForgotten = 1_700
	// maxForget is the longest value of AnnotationForget. A longer value is ignored.
	maxForget = 64 << 10
)

// forget removes the records that the user gives up. The record of a pod that exists stays: the pod has its place
// already.
func forget(in RecordInput, records map[string]appsv1beta1.PodState) {
	given := Forgotten(in.State)
	if len(given) == 0 {
		return
	}
	there := present(in.Pods)
	for name, r := range records {
		if given[r.UID] && !there[name] {
			delete(records, name)
		}
	}
}

// Forgotten returns the UIDs of the lives whose recorded places the user gives up.
func Forgotten(s *appsv1beta1.PersistentPodState) map[types.UID]bool {
	text := s.Annotations[AnnotationForget]
	if text == "" || len(text) > maxForget {
		return nil
	}
	given := map[types.UID]bool{}
	for uid := range strings.SplitSeq(text, ",") {
		if uid = strings.TrimSpace(uid); uid != "" {
			given[types.UID(uid)] = true
		}
	}
	return given
}
