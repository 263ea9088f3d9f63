package reconcile

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// longestMatch is longer than the names of a spread and a subset, and a UID.
const longestMatch = 1024

// Needs is what the reconciler reads from the caches.
func Needs() cluster.Needs {
	all := cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of[*appsv1beta1.WorkloadSpread](),
			cluster.Of(cluster.SharedLabels[*corev1.Pod](), cluster.Phase, cluster.Requests(), podPlace, cluster.Verdict,
				cluster.NamedAnnotations[*corev1.Pod](longestMatch, appsv1beta1.AnnotationMatchedSpread, appsv1beta1.AnnotationHomeSubset, podpatch.AnnotationPlace)),
			cluster.Of(cluster.ReplicaSetSize), cluster.Of(cluster.DeploymentSize), cluster.Of(cluster.StatefulSetSize), cluster.Of(cluster.JobSize),
			cluster.Of(cluster.Labels[*corev1.Node], nodeRoom),
		},
		Indexes: []cluster.Index{cluster.SpreadsByTarget(), cluster.PodsByTarget(), cluster.PodsByNode()},
	}
	for _, more := range []cluster.Needs{cluster.OwnerChain(), books.Needs(), workloads.BetweenNeeds()} {
		all.Objects, all.Indexes = append(all.Objects, more.Objects...), append(all.Indexes, more.Indexes...)
	}
	return all
}

// mostTolerations and mostGates bound what users may write into a pod.
const (
	mostTolerations = 64
	mostGates       = 8
)

// podPlace keeps where a pod runs, or may run. What another feature keeps stays.
func podPlace(from, to *corev1.Pod) {
	to.Spec.NodeName, to.Status.NominatedNodeName = from.Spec.NodeName, from.Status.NominatedNodeName
	if to.Spec.Tolerations == nil {
		to.Spec.Tolerations = slices.Clone(from.Spec.Tolerations[:min(len(from.Spec.Tolerations), mostTolerations)])
	}
	if to.Spec.SchedulingGates == nil {
		to.Spec.SchedulingGates = slices.Clone(from.Spec.SchedulingGates[:min(len(from.Spec.SchedulingGates), mostGates)])
	}
}

// nodeRoom keeps whether a node takes pods, and how much room it has.
func nodeRoom(from, to *corev1.Node) {
	to.Status.Allocatable = from.Status.Allocatable
	to.Spec.Unschedulable, to.Spec.Taints = from.Spec.Unschedulable, from.Spec.Taints
	cluster.NodeReadiness(from, to)
}

var (
	replicaSets = appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind()
	jobs        = batchv1.SchemeGroupVersion.WithKind("Job").GroupKind()
)
