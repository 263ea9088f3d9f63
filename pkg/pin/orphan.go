package pin

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/pkg/workload"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// regret is how long a pod goes on waiting for its place after the PersistentPodState that
// required it is gone: one that is replaced is deleted for a moment, too, and what the
// pod needs may be in that place.
const regret = time.Minute

// OrphanInput is what is known of pods whose PersistentPodState is gone.
type OrphanInput struct {
	// State is its name.
	State string
	// Pods that were pinned by it and wait, and whose owner no other one has as its target.
	Pods []corev1.Pod
	// Since is when it was found gone; zero when it was just now.
	Since time.Time
	// Now is the time of the decision.
	Now time.Time
}

// Orphans decides about pods that wait for a place that nobody requires any more. They are
// let go when nobody regrets it.
func Orphans(in OrphanInput) (waits []Wait, again time.Duration) {
	news := in.Since.IsZero()
	if news {
		in.Since = in.Now
	}
	d := PlaceDecision{
		Reason:  ReasonNotRequired,
		Message: fmt.Sprintf("PersistentPodState %s, which required it, does not exist any more", in.State),
		Remedy:  fmt.Sprintf("make it anew, or wait: the pod may go elsewhere after %s", regret),
		Again:   max(in.Since.Add(regret).Sub(in.Now), 0),
	}
	if d.Again == 0 {
		d.Verdict = LetGo
	}
	for i := range in.Pods {
		waits = append(waits, Wait{Pod: &in.Pods[i], Place: placeOf(&in.Pods[i]), News: news, Decision: d})
	}
	return waits, d.Again
}

// PinnedBy returns the PersistentPodState that made a pod wait for its place; "" for a pod
// that does not, or that nobody would make anew under its name: what such a pod says of a
// place was copied from another, and the webhook is not asked about it.
func PinnedBy(pod *corev1.Pod) string {
	owner, owned := workload.OwnerOf(pod)
	if !owned || owner.Unstable() || !Waits(pod) {
		return ""
	}
	return pod.Annotations[appsv1beta1.AnnotationInjected]
}
