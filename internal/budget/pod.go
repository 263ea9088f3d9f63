package budget

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// PodOf reads a pod. A pod that became Ready less than the stable time ago serves, and is not
// available yet. Nor is a pod whose condition Ready has no time, or one in the future, or whose change the kubelet has not
// seen: of a budget that is younger than the change, no entry tells of it.
func PodOf(pod *corev1.Pod, stable time.Duration, now time.Time) Pod {
	p := Pod{
		UID: string(pod.UID), Name: pod.Name,
		Ready:    workload.Ready(pod),
		Pending:  pod.Status.Phase == corev1.PodPending,
		Finished: !workload.Alive(pod),
		Changing: unseen(pod),
	}
	p.Serving = p.Ready && !p.Finished && pod.Status.Phase == corev1.PodRunning && !Marked(pod)
	p.Available = p.Serving && !p.Changing && (stable <= 0 || readyFor(pod, now) >= stable)
	return p
}

// Marked reports whether a pod has a label unavailable-pod.kruise.io/…, with any value.
func Marked(pod *corev1.Pod) bool {
	for label := range pod.Labels {
		if strings.HasPrefix(label, policyv1beta1.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}

// readyFor is how long a pod has been Ready; 0 when that is not known.
func readyFor(pod *corev1.Pod, now time.Time) time.Duration {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return now.Sub(c.LastTransitionTime.Time)
		}
	}
	return 0
}

// StableAt returns when a Ready pod becomes available; false for any other pod.
func StableAt(pod *corev1.Pod, stable time.Duration, now time.Time) (time.Time, bool) {
	p := PodOf(pod, stable, now)
	if !p.Serving || p.Changing || p.Available {
		return time.Time{}, false
	}
	return now.Add(stable - readyFor(pod, now)), true
}

// unseen reports whether the kubelet has not seen the newest spec of a pod. Before Kubernetes 1.33 no kubelet tells it.
func unseen(pod *corev1.Pod) bool {
	observed := pod.Status.ObservedGeneration
	return observed > 0 && observed < pod.Generation
}

// silence is how long a node may be Ready whose kubelet is silent: 50 s, and some time to tell it.
const silence = time.Minute

// Seen is what a pod shows of an entry. silent tells that its node is not Ready. A kubelet before Kubernetes 1.33 does not tell which
// generation it has seen: it has seen each one if it was not silent.
func Seen(pod *corev1.Pod, silent bool, of ledger.Entry) ledger.PodSeen {
	seen := ledger.PodSeen{
		Version: pod.ResourceVersion, Going: !workload.Alive(pod), Generation: pod.Generation, Restarts: Restarts(pod),
		Pending: unseen(pod), Grace: time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)) * time.Second,
	}
	seen.Silent = silent
	if pod.Status.ObservedGeneration == 0 {
		seen.Grace += silence
	}
	for _, c := range pod.Status.Conditions {
		if of.Vector == string(Update) || of.Vector == string(Leave) || c.Status != corev1.ConditionTrue {
			continue // another change does not wait for an earlier resize
		}
		seen.Pending = seen.Pending || c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonDeferred
		seen.Resizing = seen.Resizing || c.Type == corev1.PodResizeInProgress
		seen.Infeasible = seen.Infeasible || c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	}
	return seen
}

// Restarts is how often the containers of a pod were restarted together.
func Restarts(pod *corev1.Pod) (n int64) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		n += int64(c.RestartCount)
	}
	return n
}
