package pin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ReasonNotStarted of a Wait says that the pod is bound to a node that fell silent before its
// kubelet said anything of the pod. The pod hangs until the node is back.
const ReasonNotStarted = "NotStarted"

// Unstarted reports whether a pod has a node, and no kubelet has said anything of the pod. A
// kubelet reports the start time of a pod before it starts anything of the pod.
func Unstarted(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.StartTime == nil && len(pod.Status.PodIPs) == 0 &&
		!workload.Ended(pod) && pod.Status.Phase != corev1.PodRunning
}

// Stranded reports whether a pod is bound to a silent node that has not started the pod. A nil node
// is a node that does not exist, whose pods Kubernetes deletes.
func Stranded(pod *corev1.Pod, node *corev1.Node) bool {
	return Unstarted(pod) && node != nil && fit.Silent(node)
}

// Pinned reports whether Limpet sent a pod to its node although the pod may run elsewhere: neither its place nor its
// address is required.
func Pinned(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Annotations[AnnotationNode] == pod.Spec.NodeName && placeOf(pod) == nil &&
		pod.Annotations[reservation.ModeAnnotation] != reservation.Required.String()
}

// neverBegan reports whether a stranded pod was bound after the last sign of its node's kubelet, by the clock of the
// API server. A kubelet that lives renews its lease within ten seconds, and reports a new pod within one.
func neverBegan(in RecordInput, pod *corev1.Pod) bool {
	renewed, known := in.Renewed[pod.Spec.NodeName]
	return known && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(renewed)
	})
}

// planStranded decides about a stranded pod. A pod that Limpet pinned, and that may run elsewhere, goes if it never
// began. Any other pod stays by default: nothing in the API proves that a node which is cut off has not started it.
// The user of the pod may prefer a second pod of that name, in a rare case, to a pod that hangs. free tells that the
// next pod is released from its required place, too.
func planStranded(in RecordInput, pod *corev1.Pod, record appsv1beta1.PodState) (d PlaceDecision, free bool) {
	release, _ := ParseRelease(in.State.Annotations) // the webhook has refused what is wrong
	name := pod.Spec.NodeName
	d = PlaceDecision{
		Reason:  ReasonNotStarted,
		Message: fmt.Sprintf("it is bound to node %s, which is silent and has not reported a start of the pod", name),
		Remedy:  fmt.Sprintf("bring node %s back; if it is dead, %s", name, fit.SayDead(name)),
	}
	place := placeOf(pod)
	left := PlaceDecision{Verdict: LetGo}
	if place != nil {
		left = PlanPlace(PlaceInput{Pod: pod, Place: place, State: in.State, Record: record, Nodes: in.Cluster, Now: in.Now})
	}
	switch {
	case !slices.Contains(release.On, TriggerUnstarted) && (!Pinned(pod) || !neverBegan(in, pod)):
		d.Remedy += fmt.Sprintf("; or let Limpet delete the pod by force: kubectl -n %s annotate --overwrite persistentpodstate %s %s=%s", in.State.Namespace, in.State.Name, AnnotationLeaveOn, withUnstarted(release.On))
	case mostSilent(in.Cluster):
		d.Message += "; as most nodes are silent, the pod is not deleted"
	case left.Verdict == Hold && !anyFit(fit.WithLabels(in.Cluster, place), pod):
		d.Message += "; as no other node of its required place takes the pod, it is not deleted"
		d.Again = left.Again
	default:
		d.Verdict = LetGo
	}
	return d, place != nil && left.Verdict == LetGo
}

// withUnstarted are the triggers of a user, and the one for pods that never began.
func withUnstarted(on []ReleaseTrigger) (list string) {
	for _, t := range on {
		list += string(t) + ","
	}
	return list + string(TriggerUnstarted)
}

// mostSilent reports whether more than half of the nodes are silent. The network or the API server
// is then the likely cause, and not the nodes, which may run their pods.
func mostSilent(nodes []*corev1.Node) bool {
	silent := len(slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !fit.Silent(n) }))
	return silent*2 > len(nodes)
}

func anyFit(nodes []*corev1.Node, pod *corev1.Pod) bool {
	return slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
		reason, _ := fit.Obstacle(n, pod)
		return reason == ""
	})
}
