package reconcile

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// cause is why a pod became unavailable although no budget was asked. It is a label of a
// metric and a word of the status, so the list is closed.
type cause string

const (
	causeNodeLost  cause = "NodeLost"         // the node is gone, or not Ready
	causeEvicted   cause = "EvictedByKubelet" // for want of memory or disk, or because the node shuts down
	causeFailed    cause = "PodFailed"        // the containers ended with an error
	causeNotReady  cause = "NotReady"         // a probe fails, or a container restarts
	causeNotJudged cause = "NotJudged"        // deleted by break-glass, or while the guard was not called
)

// causes are all values of cause.
var causes = []cause{causeNodeLost, causeEvicted, causeFailed, causeNotReady, causeNotJudged}

// lossDelay is how long a loss is unconfirmed: the cache may show the end of a pod before it
// shows the entry of the request that ended the pod.
const lossDelay = 3 * time.Second

// sight is an available pod that the last reconcile saw, or one whose loss is not reported yet.
type sight struct {
	name string
	// missing is since when the pod is unavailable and no entry of the book says why.
	missing time.Time
	// cause is the first cause that was seen.
	cause cause
}

// loss is an available pod that became unavailable without a request that was judged.
type loss struct {
	uid   types.UID
	pod   string
	cause cause
}

// observation is what one reconcile knows of the pods of a budget.
type observation struct {
	now time.Time
	// available tells for each covered pod whether it is available.
	available map[types.UID]bool
	names     map[types.UID]string
	// causes tell why pods that were available are so no longer; a missing cause means that such
	// a pod lives and is Ready, or ended as it should.
	causes map[types.UID]cause
	// judged reports whether an entry of the book is or was there for a pod.
	judged func(types.UID) bool
}

// missing returns the pods that were available before and are not so now.
func (o observation) missing(before map[types.UID]sight) map[types.UID]sight {
	found := map[types.UID]sight{}
	for uid, s := range before {
		if !o.available[uid] {
			found[uid] = s
		}
	}
	return found
}

// compare returns what to remember of the pods, the losses that are certain now, and when
// to look again; 0 for no such time.
func (o observation) compare(before map[types.UID]sight) (after map[types.UID]sight, lost []loss, again time.Duration) {
	after = map[types.UID]sight{}
	for uid, available := range o.available {
		if available {
			after[uid] = sight{name: o.names[uid]}
		}
	}
	for uid, s := range o.missing(before) {
		seen, ended := o.causes[uid]
		_, covered := o.available[uid]
		switch {
		case o.judged(uid):
		case !ended && covered: // it may be lost later
			after[uid] = sight{name: s.name}
		case !ended:
		case s.missing.IsZero():
			after[uid] = sight{name: s.name, missing: o.now, cause: seen}
			again = lossDelay
		case o.now.Sub(s.missing) < lossDelay:
			after[uid] = s
			again = lossDelay
		default:
			lost = append(lost, loss{uid: uid, pod: s.name, cause: s.cause})
		}
	}
	return after, lost, again
}

// causeOf returns why a pod that was available is so no longer; false for a pod that lives
// and is Ready, and for one that succeeded. pod is nil for a pod that is gone.
func causeOf(pod *corev1.Pod, node *corev1.Node) (cause, bool) {
	switch {
	case pod == nil:
		return causeNotJudged, true
	case pod.Status.Phase == corev1.PodSucceeded:
		return "", false
	case endedByKubelet(pod):
		return causeEvicted, true
	case workload.Alive(pod) && workload.Ready(pod):
		return "", false
	case pod.Spec.NodeName != "" && (node == nil || !fit.Ready(node)):
		return causeNodeLost, true
	case pod.Status.Phase == corev1.PodFailed:
		return causeFailed, true
	case pod.DeletionTimestamp != nil:
		return causeNotJudged, true
	}
	return causeNotReady, true
}

// endedByKubelet reports whether the kubelet itself ended a pod.
func endedByKubelet(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonTerminationByKubelet {
			return true
		}
	}
	return pod.Status.Phase == corev1.PodFailed && kubeletReasons[pod.Status.Reason]
}

// kubeletReasons are the reasons that the kubelet gives in the status of a pod that it ended.
var kubeletReasons = map[string]bool{"Evicted": true, "Preempting": true, "NodeShutdown": true, "Terminated": true, "NodeAffinity": true}
