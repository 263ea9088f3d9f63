package pin

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/fit"
)

// Gate is the scheduling gate that holds a pod back until its node is nominated. The field
// status.nominatedNodeName cannot be set while a pod is created, and without the gate the
// scheduler would be faster than any later write.
const Gate = "limpet.dev/pin"

// AnnotationNode on a gated pod names the node to nominate.
const AnnotationNode = "limpet.dev/pinned-node"

// Reasons of a GateDecision.
const (
	ReasonNotGated   = "NotGated"   // the pod does not have the gate, or is on its way out
	ReasonNominated  = "Nominated"  // the scheduler tries the recorded node first
	ReasonUngated    = "Ungated"    // no node is to be nominated: the gate has no work
	ReasonNodeSilent = "NodeSilent" // the node may be dead: the gate stays until that is known
)

// ReasonGateNotOpened is the reason of the event on a pod whose gate may not be opened, as
// another admission controller refuses it.
const ReasonGateNotOpened = "GateNotOpened"

const (
	// leaseInterval is the time between two looks at the lease of a silent node.
	leaseInterval = 2 * time.Second
	// leaseGrace is the longest wait for the verdict on a silent node, from the creation of
	// the pod. By default Kubernetes finds a silent node NotReady after 50 s.
	leaseGrace = time.Minute
)

// GateInput is what is known about a pod behind the gate.
type GateInput struct {
	Pod *corev1.Pod
	// Node to nominate; nil when it does not exist.
	Node *corev1.Node
	// Silent tells that the node's kubelet has missed a renewal of its lease.
	Silent bool
	Now    time.Time
}

// GateDecision says what a pod behind the gate gets.
type GateDecision struct {
	// Nominate is the node to write into status.nominatedNodeName; "" for none.
	Nominate string
	// Open tells to remove this gate, and no other one.
	Open bool
	// Again is when to decide again about a pod whose gate stays; 0 for never.
	Again   time.Duration
	Reason  string
	Message string
}

// PlanGate decides about a pod behind the gate. Usually there is nothing to wait for: the
// scheduler takes the nominated node if the node passes all filters, and another one if it
// does not. A node that has just died still passes all filters, until Kubernetes notices; a
// pod that is bound to such a node hangs until a person deletes it by force.
func PlanGate(in GateInput) GateDecision {
	if !Gated(in.Pod) {
		return GateDecision{Reason: ReasonNotGated, Message: "the pod does not wait for a nomination"}
	}
	name := in.Pod.Annotations[AnnotationNode]
	switch waited := in.Now.Sub(in.Pod.CreationTimestamp.Time); {
	case name == "":
		return GateDecision{Open: true, Reason: ReasonUngated, Message: "the pod names no node to return to"}
	case in.Node == nil || fit.Unreachable(in.Node):
		return GateDecision{Open: true, Reason: ReasonUngated, Message: fmt.Sprintf("node %s cannot be reached or does not exist", name)}
	case in.Silent && waited < leaseGrace:
		return GateDecision{Again: leaseInterval, Reason: ReasonNodeSilent, Message: fmt.Sprintf("node %s has not renewed its lease: wait for it, or for the verdict that it is not Ready", name)}
	}
	d := GateDecision{Open: true, Reason: ReasonNominated, Message: fmt.Sprintf("the scheduler tries node %s first", name)}
	if in.Pod.Status.NominatedNodeName != name {
		d.Nominate = name
	}
	return d
}

// Gated tells whether a pod waits behind the gate, and is not being deleted.
func Gated(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == Gate })
}

// nominates tells whether the pod must return to the recorded node itself: it asks for an
// address, which only that node keeps, or its user names the node and not a larger part of
// the cluster.
func nominates(in Input, record appsv1beta1.PodState) bool {
	if in.Pod.Spec.NodeName != "" {
		return false
	}
	if in.Retains {
		return true
	}
	var terms []appsv1beta1.NodeTopologyTerm
	if t := in.State.Spec.RequiredPersistentTopology; t != nil {
		terms = append(terms, *t)
	}
	for _, item := range usablePreferences(in.State) {
		terms = append(terms, item.Preference)
	}
	return slices.ContainsFunc(terms, func(t appsv1beta1.NodeTopologyTerm) bool {
		return slices.ContainsFunc(t.Keys, func(key string) bool { return oneNode(key, record) })
	})
}

// oneNode tells whether a topology key selects the recorded node alone.
func oneNode(key string, record appsv1beta1.PodState) bool {
	value, recorded := record.NodeTopologyLabels[key]
	return recorded && (key == corev1.LabelHostname || value == record.NodeName)
}
