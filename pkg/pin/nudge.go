package pin

import (
	"time"

	"github.com/limpet-io/limpet/pkg/workload"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// nudges are the times, from when a workload was first seen to lack a pod, at which it is
// nudged. Its own controller tries again at growing distances, of up to a quarter of an
// hour; a pod that is on its way is there before the first.
var nudges = []time.Duration{2 * time.Second, 8 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}

// NudgeAfter returns how long a workload must have lacked a pod to be nudged once more. A
// pod may be refused for another reason than an absent webhook: the last distance repeats.
func NudgeAfter(nudged int) time.Duration {
	last := len(nudges) - 1
	return nudges[min(nudged, last)] + time.Duration(max(nudged-last, 0))*nudges[last]
}

// LacksPods tells whether a StatefulSet's controller has no reason of its own for fewer
// pods than wanted, so that they may have been refused. One that makes its pods in order
// waits for the others to be Ready.
func LacksPods(set *appsv1.StatefulSet, pods []corev1.Pod) bool {
	if set.DeletionTimestamp != nil || set.Status.Replicas >= ptr.Deref(set.Spec.Replicas, 1) {
		return false
	}
	return set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || allReady(pods)
}

func allReady(pods []corev1.Pod) bool {
	for i := range pods {
		if !workload.Alive(&pods[i]) || !workload.Ready(&pods[i]) {
			return false
		}
	}
	return true
}

// Missing returns those of the recorded pods that are not there, though nothing says that
// they are not wanted. It serves for workloads that are not known themselves.
func Missing(s *appsv1beta1.PersistentPodState, pods []corev1.Pod) []string {
	there := map[string]bool{}
	for i := range pods {
		there[pods[i].Name] = true
	}
	var missing []string
	for name, record := range s.Status.PodStates {
		if record.ExpiresAt == nil && !there[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
