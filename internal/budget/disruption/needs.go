package disruption

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// mirrorLength is more than the hash of a static pod takes.
const mirrorLength = 64

// mostFinalizers is how many finalizers of a pod are looked at.
const mostFinalizers = 16

// Needs is what the decisions read from the caches: of pods, which budgets cover them and
// whether they are available; of workloads, how many pods they want.
func Needs() cluster.Needs {
	chain := cluster.OwnerChain()
	return cluster.Needs{
		Objects: append(chain.Objects,
			cluster.Of(cluster.SharedLabels[*corev1.Pod](), cluster.OwnAnnotations, cluster.NamedAnnotations[*corev1.Pod](mirrorLength, corev1.MirrorPodAnnotationKey), cluster.Phase, cluster.ReadySince, cluster.Disrupted, cluster.Requests(), podNode, podService),
			cluster.Of(cluster.ReplicaSetSize, cluster.TemplateLabels),
			cluster.Of(cluster.JobSize, cluster.TemplateLabels),
			cluster.Of(cluster.DeploymentSize, cluster.TemplateLabels),
			cluster.Of(cluster.StatefulSetSize, cluster.TemplateLabels),
			cluster.Of(cluster.DaemonSetSize, cluster.TemplateLabels),
			cluster.Of(cluster.ReplicationControllerSize),
			cluster.Of(cluster.Labels[*corev1.Namespace]),
			cluster.Of(cluster.Labels, nodeTaints),
			cluster.Of(cluster.Budget),
			cluster.Of(cluster.DistributedBudget),
			cluster.Of(cluster.DisruptionBudgetSelector),
			cluster.Of(cluster.NodeOwner, poolNode),
			cluster.Of(cluster.NodeOwner, reservationState),
		),
		Indexes: append(chain.Indexes,
			cluster.BudgetsByPods(), cluster.DistributedBudgetsByPods(), cluster.DisruptionBudgetsByPods(), cluster.PodsByNode(), cluster.PoolsByNode(),
			cluster.ReservationsByPod(),
		),
	}
}

// podNode keeps where a pod runs.
func podNode(from, to *corev1.Pod) {
	to.Spec.NodeName, to.Status.NominatedNodeName, to.Status.PodIPs = from.Spec.NodeName, from.Status.NominatedNodeName, from.Status.PodIPs
}

// podService keeps whether a pod is in service, and which finalizers its handlers may mean. Few pods have the gate, and all
// that are in service the same condition.
func podService(from, to *corev1.Pod) {
	c := budget.Service(from)
	if !budget.Gated(from) {
		return
	}
	to.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: policyv1beta1.ConditionInService}}
	hooks := from.Annotations[policyv1beta1.AnnotationLifecycle]
	first := slices.Clone(from.Finalizers[:min(len(from.Finalizers), mostFinalizers)])
	to.Finalizers = slices.DeleteFunc(first, func(f string) bool { return !strings.Contains(hooks, f) })
	if c == nil || budget.Service(to) != nil {
		return
	}
	kept := corev1.PodCondition{Type: c.Type, Status: c.Status}
	if c.Status != corev1.ConditionTrue {
		kept.Reason, kept.LastTransitionTime, kept.ObservedGeneration = c.Reason, c.LastTransitionTime, c.ObservedGeneration
	}
	to.Status.Conditions = append(to.Status.Conditions, kept)
}

// nodeTaints keeps whether a node takes pods.
func nodeTaints(from, to *corev1.Node) {
	to.Spec.Unschedulable, to.Spec.Taints, to.Status.Allocatable = from.Spec.Unschedulable, from.Spec.Taints, from.Status.Allocatable
	cluster.NodeReadiness(from, to)
}

// poolNode keeps which node a pool is of.
func poolNode(from, to *limpetv1alpha1.NodeIPPool) { to.Status.Node = from.Status.Node }

// reservationState keeps for which life of a pod which addresses are reserved, and until when.
func reservationState(from, to *limpetv1alpha1.IPReservation) {
	s := from.Status
	to.Status.Node, to.Status.Pod, to.Status.PodUID, to.Status.IPs = s.Node, s.Pod, s.PodUID, s.IPs
	to.Status.State, to.Status.Until = s.State, s.Until
}
