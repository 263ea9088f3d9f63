package reconcile

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	indexPinned = "limpet.pinned"

	// Indexes of the few objects that need something have one key.
	indexWaiting    = "limpet.waiting"
	indexLacking    = "limpet.lacking"
	indexOtherKinds = "limpet.other-kinds"
	indexIncomplete = "limpet.incomplete" // by the node that is recorded
	indexHome       = "limpet.home"       // by the node to which a pod may return
	theKey          = "yes"
)

// Needs is what the reconcilers and the admission of this feature read from the caches.
// Of a pod that is little: ten thousand whole pods would multiply the controller's memory.
func Needs() cluster.Needs {
	return cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of(podAnnotations, cluster.Owners, cluster.Phase, cluster.Requests(), podPlace, podGate, podRefusal),
			cluster.Of(cluster.Labels, cluster.NodeFitness),
			cluster.Of(cluster.Labels[*corev1.Namespace], cluster.NamedAnnotations[*corev1.Namespace](longestKeep, reservation.KeepAnnotation)),
			cluster.Of(cluster.OwnAnnotations, setProgress),
			cluster.Of(cluster.JobSize, jobProgress),
			cluster.Of(cluster.Owners, replicaSetRefusal), cluster.Of(cluster.Owners[*batchv1.Job]), cluster.Of(cluster.Owners[*appsv1.Deployment]),
			cluster.Of(cluster.ReplicationControllerSize),
			cluster.Of(cluster.NodeOwner, cluster.ReservationHolder).AtMost(maxReservations, nodeOfReservation),
			cluster.Of(cluster.NodeOwner, poolUsage).AtMost(maxPools, nodeOfPool),
		},
		Indexes: []cluster.Index{
			cluster.StatesByTarget(), cluster.PodsByTarget(), cluster.PodsByOwnerName(), cluster.PodsByNode(), cluster.ReservationsByPod(), cluster.PoolsByNode(),
			cluster.PodsByAddress(), cluster.By(indexPinned, stateThatHolds).InNamespace(),
			cluster.By(indexWaiting, only(pin.Waits)).Everywhere(), cluster.By(indexLacking, only(lacksPods)),
			cluster.By(indexLacking, only(refused[*appsv1.ReplicaSet])), cluster.By(indexLacking, only(refused[*batchv1.Job])),
			cluster.By(indexLacking, only(refused[*corev1.ReplicationController])),
			cluster.By(indexOtherKinds, only(ofOtherKind)), cluster.By(indexIncomplete, nodesToComplete), cluster.By(indexHome, homesOf),
		},
	}
}

// podAnnotations keeps the annotations that may be recorded: users choose those. Of a pod
// whose name never returns nothing is recorded.
func podAnnotations(from, to *corev1.Pod) {
	if owner, ok := workload.OwnerOf(from); ok && !owner.Unstable() {
		cluster.Annotations(from, to)
		return
	}
	cluster.OwnAnnotations(from, to)
}

// podPlace keeps where a pod runs, or may run.
func podPlace(from, to *corev1.Pod) {
	to.Spec.NodeName = from.Spec.NodeName
	cluster.PodAddresses(from, to)
	cluster.Gates(from, to)
	cluster.Tolerations(from, to)
	to.Status.NominatedNodeName = from.Status.NominatedNodeName
	if from.Status.Phase == corev1.PodPending {
		to.Status.StartTime = from.Status.StartTime // a pod that runs has started
	}
	if pin.Unstarted(from) {
		keepRefusal(from, to, "") // since when it is bound
	}
}

// podGate keeps what decides whether a gated pod may be nominated, and whether a nomination
// is withdrawn.
func podGate(from, to *corev1.Pod) {
	if from.Spec.NodeName != "" || len(from.Spec.SchedulingGates) == 0 && from.Status.NominatedNodeName == "" {
		return
	}
	to.Spec.PreemptionPolicy, to.Spec.ResourceClaims, to.Spec.SchedulingGroup = from.Spec.PreemptionPolicy, from.Spec.ResourceClaims, from.Spec.SchedulingGroup
	to.Spec.Affinity, to.Spec.SchedulerName = from.Spec.Affinity, from.Spec.SchedulerName
	keepRefusal(from, to, "")
}

// podRefusal keeps why the scheduler places no pod that waits for its required place, and
// which nodes such a pod asks for.
func podRefusal(from, to *corev1.Pod) {
	if from.Annotations[podpatch.AnnotationPlace] == "" || from.Spec.NodeName != "" {
		return
	}
	to.Spec.NodeSelector, to.Spec.Affinity = from.Spec.NodeSelector, from.Spec.Affinity
	for _, c := range from.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			keepRefusal(from, to, c.Message)
		}
	}
}

// keepRefusal keeps the scheduler's verdict on a pod, with a message.
func keepRefusal(from, to *corev1.Pod, message string) {
	to.Status.Conditions = slices.DeleteFunc(to.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled // another part may have kept it with less
	})
	for _, c := range from.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			to.Status.Conditions = append(to.Status.Conditions,
				corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: message, LastTransitionTime: c.LastTransitionTime})
		}
	}
}

// setProgress keeps whether a StatefulSet lacks pods, and what its pods ask for.
func setProgress(from, to *appsv1.StatefulSet) {
	to.Spec.Replicas, to.Spec.PodManagementPolicy = from.Spec.Replicas, from.Spec.PodManagementPolicy
	to.Spec.Template.Annotations = cluster.OwnOf(from.Spec.Template.Annotations)
	to.Spec.Ordinals, to.Spec.MinReadySeconds = from.Spec.Ordinals, from.Spec.MinReadySeconds
	to.Status.Replicas, to.Status.AvailableReplicas = from.Status.Replicas, from.Status.AvailableReplicas
}

// jobProgress keeps whether a Job lacks pods.
func jobProgress(from, to *batchv1.Job) {
	to.Status.Active, to.Status.Terminating, to.Status.Failed = from.Status.Active, from.Status.Terminating, from.Status.Failed
}

// replicaSetRefusal keeps whether a ReplicaSet could not make its pods.
func replicaSetRefusal(from, to *appsv1.ReplicaSet) {
	if pin.Refused(from, 1) {
		to.Status.Conditions = pin.FailedCreate
	}
}

// longestKeep is the length of the longest duration that is read from a namespace.
const longestKeep = 64

// Bounds of what the cache holds of one node, whose agent may create any number of objects. A
// network has 10 000 reservations at the most.
const (
	maxReservations = 12_000
	maxPools        = 64
)

func nodeOfReservation(o client.Object) string { return o.(*limpetv1alpha1.IPReservation).Status.Node }

func nodeOfPool(o client.Object) string { return o.(*limpetv1alpha1.NodeIPPool).Status.Node }

// maxRanges is how much of the ranges of a pool the cache keeps. A pool with longer ones counts as one whose ranges are
// not known: an agent may write any text.
const maxRanges = 2 << 10

// poolUsage keeps whether a pool has addresses left.
func poolUsage(from, to *limpetv1alpha1.NodeIPPool) {
	s := from.Status
	length := 0
	for _, set := range s.Ranges {
		length += len(set)
	}
	if length > maxRanges {
		s.Ranges = nil
	}
	to.Status.Node, to.Status.Ranges, to.Status.Total, to.Status.Free, to.Status.StateSince = s.Node, s.Ranges, s.Total, s.Free, s.StateSince
}

// stateThatHolds is the key of the index of waiting pods by the PersistentPodState that
// gave them their place.
func stateThatHolds(pod *corev1.Pod) []string {
	if by := pin.PinnedBy(pod); by != "" {
		return []string{by}
	}
	return nil
}

// only are the keys of an index of the objects with a condition.
func only[T client.Object](has func(T) bool) func(T) []string {
	return func(o T) []string {
		if has(o) {
			return []string{theKey}
		}
		return nil
	}
}

// lacksPods reports whether a StatefulSet may lack pods.
func lacksPods(set *appsv1.StatefulSet) bool { return pin.LacksPods(set, nil) }

// refused reports whether a ReplicaSet, ReplicationController or Job may lack pods.
func refused[T client.Object](w T) bool {
	_, wants := cluster.MakesPods(w)
	return w.GetDeletionTimestamp() == nil && pin.Refused(w, wants)
}

// ofOtherKind reports whether the target of a state is no workload of Kubernetes.
func ofOtherKind(state *appsv1beta1.PersistentPodState) bool {
	return pin.TargetOf(state).Group != appsv1.GroupName
}

// nodesToComplete are the nodes whose labels a record lacks.
func nodesToComplete(state *appsv1beta1.PersistentPodState) (nodes []string) {
	for _, record := range state.Status.PodStates {
		if pin.Incomplete(state, record) && !slices.Contains(nodes, record.NodeName) {
			nodes = append(nodes, record.NodeName)
		}
	}
	return nodes
}

// homesOf are the nodes to which pods of a state may return.
func homesOf(state *appsv1beta1.PersistentPodState) (nodes []string) {
	for pod := range state.Status.PodStates {
		if home := pin.HomeNode(state, pod); home != "" && !slices.Contains(nodes, home) {
			nodes = append(nodes, home)
		}
	}
	return nodes
}
