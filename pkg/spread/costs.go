package spread

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/workload"
)

// CostInput are the pods of one revision.
type CostInput struct {
	Spread Spread
	// Pods that are active.
	Pods []*corev1.Pod
	// Subsets of the pods by their UIDs. A pod that is missing has no subset.
	Subsets map[types.UID]string
	// Old tells that the workload has a newer revision: the first subset is emptied first.
	Old bool
}

// Costs returns the deletion costs of pods by their UIDs. The pod with the lowest cost goes first.
// Of n subsets, the pods in the one with index i have the cost 100·(n−i), those beyond its maximum
// have −100·(i+1), and pods without a subset −100·(n+1).
func Costs(in CostInput) map[types.UID]int32 {
	costs := map[types.UID]int32{}
	bySubset := map[string][]*corev1.Pod{}
	n := int32(len(in.Spread.Subsets))
	for _, pod := range in.Pods {
		name := in.Subsets[pod.UID]
		bySubset[name] = append(bySubset[name], pod)
		costs[pod.UID] = -appsv1beta1.DeletionCostStep * (n + 1)
	}
	for at := range in.Spread.Subsets {
		s, i := &in.Spread.Subsets[at], int32(at)
		if in.Old {
			i = n - 1 - i
		}
		pods := bySubset[s.Name]
		slices.SortFunc(pods, byActivity)
		beyond := 0
		if s.Max != nil {
			beyond = max(len(pods)-int(*s.Max), 0)
		}
		for j, pod := range pods {
			costs[pod.UID] = appsv1beta1.DeletionCostStep * (n - i)
			if j < beyond {
				costs[pod.UID] = -appsv1beta1.DeletionCostStep * (i + 1)
			}
		}
	}
	return costs
}

// byActivity orders pods as the controllers of Kubernetes do: the pod that is missed least is the
// first.
func byActivity(a, b *corev1.Pod) int {
	return cmp.Or(
		falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(phases[a.Status.Phase], phases[b.Status.Phase]),
		falseFirst(workload.Ready(a), workload.Ready(b)),
		newestFirst(readySince(a), readySince(b)),
		cmp.Compare(restarts(b), restarts(a)),
		newestFirst(a.CreationTimestamp.Time, b.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}

var phases = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// newestFirst compares times. An unknown time counts as the newest.
func newestFirst(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return falseFirst(!a.IsZero(), !b.IsZero())
	}
	return b.Compare(a)
}

// readySince is when the pod became Ready; zero for a pod that is not Ready.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// restarts is how often a container of the pod was restarted at the most.
func restarts(pod *corev1.Pod) int32 {
	most := int32(0)
	for _, c := range pod.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}
