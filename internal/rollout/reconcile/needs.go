package reconcile

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Needs is what the reconcilers read from the caches.
func Needs() cluster.Needs {
	return cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of(cluster.Owners[*corev1.Pod], cluster.Phase, cluster.ReadySince, cluster.Gates),
			cluster.Of(cluster.OwnAnnotations, setRollout),
		},
		Indexes: []cluster.Index{cluster.PodsByTarget()},
	}
}

// setRollout keeps which pods a StatefulSet wants, and how they are started and updated.
func setRollout(from, to *appsv1.StatefulSet) {
	to.Spec.Replicas, to.Spec.Ordinals, to.Spec.PodManagementPolicy = from.Spec.Replicas, from.Spec.Ordinals, from.Spec.PodManagementPolicy
	to.Spec.MinReadySeconds, to.Spec.UpdateStrategy = from.Spec.MinReadySeconds, from.Spec.UpdateStrategy
}

// gated reports whether a pod waits behind the gate.
func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == appsv1beta1.GateScaleOut })
}
