package reconcile

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	// annotationCost is the deletion cost, which the ReplicaSet controller reads.
	annotationCost = corev1.PodDeletionCost
	// annotationRevision counts the revisions of a Deployment.
	annotationRevision = "deployment.kubernetes.io/revision"
	// longestValue is longer than any cost or revision.
	longestValue = 32
	// longestMatch is longer than the names of a spread and a subset, and a UID.
	longestMatch = 1024
)

// Needs is what the reconciler reads from the caches.
func Needs() cluster.Needs {
	chain := cluster.OwnerChain()
	return cluster.Needs{
		Objects: append(chain.Objects,
			cluster.Of(cluster.SharedLabels[*corev1.Pod](), cluster.Phase, cluster.ReadySince, cluster.PodNode, cluster.Tolerations, costWriter,
				cluster.NamedAnnotations[*corev1.Pod](longestValue, annotationCost, appsv1beta1.AnnotationDeletionCost),
				cluster.NamedAnnotations[*corev1.Pod](longestMatch, appsv1beta1.AnnotationMatchedSpread)),
			cluster.Of(cluster.ReplicaSetSize, cluster.OwnAnnotations, topologyKeys,
				cluster.NamedAnnotations[*appsv1.ReplicaSet](longestValue, annotationRevision)),
			cluster.Of(cluster.OwnAnnotations[*appsv1.Deployment]),
			cluster.Of(cluster.Labels[*corev1.Node], nodeTaints),
			cluster.Of[*appsv1beta1.WorkloadSpread](),
		),
		Indexes: append(chain.Indexes, cluster.SpreadsByTarget(), cluster.PodsByTarget()),
	}
}

// nodeTaints keeps the taints of a node, which subsets tolerate or not.
func nodeTaints(from, to *corev1.Node) { to.Spec.Taints = from.Spec.Taints }

// mostKeys is how many topology keys of a template are kept.
const mostKeys = 2

// topologyKeys keeps the first keys over which the pods of a ReplicaSet are spread.
func topologyKeys(from, to *appsv1.ReplicaSet) {
	to.Spec.Template.Spec.TopologySpreadConstraints = nil
	for i, c := range from.Spec.Template.Spec.TopologySpreadConstraints {
		if i < mostKeys {
			to.Spec.Template.Spec.TopologySpreadConstraints = append(to.Spec.Template.Spec.TopologySpreadConstraints,
				corev1.TopologySpreadConstraint{TopologyKey: c.TopologyKey})
		}
	}
}
