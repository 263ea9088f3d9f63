package pin

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// orphanGrace is how long a pod still waits for its place after its PersistentPodState was
// deleted. An object that is replaced is also deleted for a moment, and the pod may need
// what is in that place.
const orphanGrace = time.Minute

// OrphanInput are the facts about pods whose PersistentPodState is gone.
type OrphanInput struct {
	// State is the name of the PersistentPodState.
	State string
	// Pods that the state pinned and that wait, and whose owner no other state targets.
	Pods []corev1.Pod
	// Since is when the state was first found gone; zero when that is now.
	Since time.Time
	// Now is the time of the decision.
	Now time.Time
}

// Orphans decides about pods that wait for a place which no state requires any more. They
// are released after a grace period.
func Orphans(in OrphanInput) (waits []Wait, again time.Duration) {
	changed := in.Since.IsZero()
	if changed {
		in.Since = in.Now
	}
	d := PlaceDecision{
		Reason:  ReasonNotRequired,
		Message: fmt.Sprintf("PersistentPodState %s, which required it, no longer exists", in.State),
		Remedy:  fmt.Sprintf("create it again, or wait: the pod may go elsewhere after %s", orphanGrace),
		Again:   max(in.Since.Add(orphanGrace).Sub(in.Now), 0),
	}
	if d.Again == 0 {
		d.Verdict = LetGo
	}
	for i := range in.Pods {
		waits = append(waits, Wait{Pod: &in.Pods[i], Place: placeOf(&in.Pods[i]), Changed: changed, Decision: d})
	}
	return waits, d.Again
}

// PinnedBy returns the PersistentPodState that made a pod wait for its place; "" for a pod
// that does not wait, or that no workload would create again under its name. Such a pod has a
// place only because its template was copied from another pod.
func PinnedBy(pod *corev1.Pod) string {
	owner, owned := workload.OwnerOf(pod)
	if !owned || owner.Unstable() || !Waits(pod) {
		return ""
	}
	return pod.Annotations[appsv1beta1.AnnotationInjected]
}
