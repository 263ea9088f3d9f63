package pin

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// resyncs are the times, since a workload was first seen to lack a pod, at which its
// controller is made to retry. The controller itself waits up to a quarter of an hour; a
// pod that is being created exists before the first of these times.
var resyncs = []time.Duration{2 * time.Second, 8 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}

// lastResync ends the resyncs of a workload: a controller that was refused for so long, as by a quota, tries by itself
// every quarter of an hour.
const lastResync = time.Hour

// ResyncAfter returns how long a workload must have lacked a pod for the next resync. The last distance repeats.
func ResyncAfter(done int) time.Duration {
	last := len(resyncs) - 1
	after := resyncs[min(done, last)] + time.Duration(max(done-last, 0))*resyncs[last]
	if after > lastResync {
		return math.MaxInt64
	}
	return after
}

// LacksPods reports whether a StatefulSet has fewer pods than it wants, and its controller no reason to wait: the pods
// may have been refused. With the policy OrderedReady the controller waits until the pods of lower ordinals than the
// missing one are available.
func LacksPods(set *appsv1.StatefulSet, pods []corev1.Pod) bool {
	wanted := int(ptr.Deref(set.Spec.Replicas, 1))
	switch {
	case set.DeletionTimestamp != nil || max(int(set.Status.Replicas), len(pods)) >= wanted:
		return false
	case set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement:
		return true
	}
	there := map[string]*corev1.Pod{}
	for i := range pods {
		there[pods[i].Name] = &pods[i]
	}
	start := int(ptr.Deref(set.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
	for lower := range wanted {
		switch pod := there[fmt.Sprintf("%s-%d", set.Name, start+lower)]; {
		case pod == nil:
			return set.Spec.MinReadySeconds == 0 || int(set.Status.AvailableReplicas) >= lower
		case !workload.Alive(pod) || !workload.Ready(pod):
			return false
		}
	}
	return false
}

// FailedCreate are the conditions of a ReplicaSet that was refused a pod.
var FailedCreate = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"}}

// Refused reports whether the controller of a ReplicaSet, ReplicationController or Job possibly was refused a pod. A
// ReplicaSet says so. The others have too few pods then. The controller of a Job whose pods fail waits for reasons of its own.
func Refused(w any, wants int32) bool {
	switch w := w.(type) {
	case *appsv1.ReplicaSet:
		return slices.ContainsFunc(w.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
			return c.Type == FailedCreate[0].Type && c.Status == FailedCreate[0].Status && c.Reason == FailedCreate[0].Reason
		})
	case *corev1.ReplicationController:
		return w.Status.Replicas < wants
	case *batchv1.Job:
		return w.Status.Failed == 0 && w.Status.Active+ptr.Deref(w.Status.Terminating, 0) < wants
	}
	return false
}

// Missing returns the recorded pods that do not exist, unless their record is about to
// expire. It serves for workloads that the cache does not hold.
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
