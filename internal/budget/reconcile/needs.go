package reconcile

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// Needs is what the reconcilers of this feature read from the caches, beside what the guard
// reads.
func Needs() cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{
		cluster.Of(podEnd, podChange),
		cluster.Of(cluster.NodeReadiness),
		cluster.Of(cluster.Labels[*corev1.Namespace], cluster.OwnAnnotations[*corev1.Namespace]),
		cluster.Of(cluster.DisruptionBudgetSelector, peers.KeepPlain),
	}, Indexes: []cluster.Index{
		cluster.By(indexGated, func(pod *corev1.Pod) []string {
			if !budget.Gated(pod) || !workload.Alive(pod) {
				return nil
			}
			return []string{"yes"}
		}).InNamespace(),
	}}
}

// indexGated finds the pods of a namespace that have the gate limpet.dev/in-service.
const indexGated = "limpet.gated"

// podEnd keeps where a pod runs, and why the kubelet ended it.
func podEnd(from, to *corev1.Pod) {
	to.Spec.NodeName = from.Spec.NodeName
	if kubeletReasons[from.Status.Reason] {
		to.Status.Reason = from.Status.Reason
	}
	i := slices.IndexFunc(from.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if i < 0 || from.Status.Conditions[i].Reason != corev1.PodReasonTerminationByKubelet {
		return
	}
	to.Status.Conditions = slices.DeleteFunc(to.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget // another part may have kept it with less
	})
	c := from.Status.Conditions[i]
	to.Status.Conditions = append(to.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
}

// podChange keeps how far the kubelet is with a change in place. Most pods were never restarted, and few are out of service.
func podChange(from, to *corev1.Pod) {
	to.Status.ObservedGeneration, to.Spec.TerminationGracePeriodSeconds = from.Status.ObservedGeneration, from.Spec.TerminationGracePeriodSeconds
	if n := budget.Restarts(from); n > 0 {
		to.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: int32(min(n, math.MaxInt32))}}
		if budget.OutOfService(from) {
			to.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(budget.Started(from))}
		}
	}
	for _, c := range from.Status.Conditions {
		if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
			to.Status.Conditions = append(to.Status.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
}
