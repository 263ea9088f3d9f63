package pin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Gate is the scheduling gate that holds a pod back until its node is nominated. The
// field status.nominatedNodeName cannot be set while a pod is created, and without the
// gate the scheduler is faster than any later write.
const Gate = "limpet.dev/pin"

// AnnotationNode on a gated pod names the node to nominate.
const AnnotationNode = "limpet.dev/pinned-node"

// Reasons of a GateDecision.
const (
	ReasonNotGated  = "NotGated"  // the pod does not have the gate, or is on its way out
	ReasonNominated = "Nominated" // the scheduler tries the recorded node first
	ReasonUngated   = "Ungated"   // no node is to be nominated: the gate has no work
)

// GateDecision says what a pod behind the gate gets.
type GateDecision struct {
	// Nominate is the node to write into status.nominatedNodeName; "" for none.
	Nominate string
	// Open tells to remove the gate, and this gate only.
	Open    bool
	Reason  string
	Message string
}

// PlanGate decides about a pod behind the gate. It never keeps the gate, whatever the
// node is like: the scheduler takes the nominated node if that passes all filters, and
// any other one at once if not, so there is nothing to wait for.
func PlanGate(pod *corev1.Pod) GateDecision {
	if pod.DeletionTimestamp != nil || !gated(pod) {
		return GateDecision{Reason: ReasonNotGated, Message: "the pod does not wait for a nomination"}
	}
	name := pod.Annotations[AnnotationNode]
	if name == "" {
		return GateDecision{Open: true, Reason: ReasonUngated, Message: "the pod names no node to return to"}
	}
	d := GateDecision{Open: true, Reason: ReasonNominated, Message: fmt.Sprintf("the scheduler tries node %s first", name)}
	if pod.Status.NominatedNodeName != name {
		d.Nominate = name
	}
	return d
}

func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == Gate })
}

// nominates tells whether the recorded node itself is where the pod wants to be: it
// asks for an address, which is kept there and nowhere else, or its user names the node
// and not just a part of the cluster.
func nominates(in Input, record appsv1beta1.PodState) bool {
	if in.Pod.Spec.NodeName != "" || excludes(in.Pod, corev1.LabelHostname, hostname(in.Node)) {
		return false
	}
	if in.Retains {
		return true
	}
	var terms []appsv1beta1.NodeTopologyTerm
	if t := in.State.Spec.RequiredPersistentTopology; t != nil {
		terms = append(terms, *t)
	}
	for _, item := range in.State.Spec.PreferredPersistentTopology {
		terms = append(terms, item.Preference)
	}
	return slices.ContainsFunc(terms, func(t appsv1beta1.NodeTopologyTerm) bool {
		return slices.ContainsFunc(t.Keys, func(key string) bool { return oneNode(key, record) })
	})
}

// oneNode tells whether a key leads to the recorded node alone.
func oneNode(key string, record appsv1beta1.PodState) bool {
	value, recorded := record.NodeTopologyLabels[key]
	return recorded && (key == corev1.LabelHostname || value == record.NodeName)
}

func hostname(node *corev1.Node) string {
	if name, ok := node.Labels[corev1.LabelHostname]; ok {
		return name
	}
	return node.Name
}
