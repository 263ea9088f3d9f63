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

// AnnotationNode on a gated pod names the node that the webhook asks to nominate. The pod's
// user can write the annotation too, so that it is no fact.
const AnnotationNode = "limpet.dev/pinned-node"

// Reasons of a GateDecision.
const (
	ReasonNotGated   = "NotGated"   // the pod does not have the gate, or is on its way out
	ReasonNominated  = "Nominated"  // the scheduler tries the recorded node first
	ReasonUngated    = "Ungated"    // no node is to be nominated: the gate has no work
	ReasonUnproven   = "Unproven"   // no record and no reservation says what the pod says
	ReasonOtherGates = "OtherGates" // another gate holds the pod back: a nomination would hold room for nothing
	ReasonNoRoom     = "NoRoom"     // the node has no room left for the pod
	ReasonNodeSilent = "NodeSilent" // the node may be dead: the gate stays until that is known
	ReasonNodePauses = "NodePauses" // the node says that it is not Ready, for some seconds
	ReasonRefused    = "Refused"    // the scheduler refused the pod, and would keep the nomination
	ReasonUntried    = "Untried"    // no scheduler has tried the pod yet
)

// ReasonGateNotOpened is the reason of the event on a pod whose gate may not be opened, as
// another admission controller refuses it.
const ReasonGateNotOpened = "GateNotOpened"

const (
	// factsInterval is the time between two looks at facts that the cache may not show yet, in
	// the first second. Creation times are whole seconds.
	factsInterval = 250 * time.Millisecond
	// factsGrace is the longest wait for such facts, from the creation of the pod. The
	// webhook may have read them from the API server.
	factsGrace = 5 * time.Second
	// leaseInterval is the time between two looks at the lease of a silent node.
	leaseInterval = 2 * time.Second
	// leaseGrace is the longest wait for a silent node, or one that pauses, since the pod waits for
	// no other gate. By default Kubernetes finds a silent node NotReady after 50 s.
	leaseGrace = time.Minute
	// untriedGrace is how long a pod of another scheduler than the default one may keep its
	// nomination without a verdict. That scheduler may not exist.
	untriedGrace = 5 * time.Minute
)

// GateInput is what is known about a pod behind the gate.
type GateInput struct {
	Pod *corev1.Pod
	// Owned tells that a workload exists that controls the pod, and whose pods return.
	Owned bool
	// Homes are the nodes of the pod according to records and reservations.
	Homes []string
	// Node to nominate; nil when it does not exist.
	Node *corev1.Node
	// Others are the other pods on the node, and those that are nominated to it.
	Others []corev1.Pod
	// Silent tells that the node's kubelet has missed a renewal of its lease.
	Silent bool
	// Alone is since when the pod waits for no other gate, as far as this replica knows; zero for
	// a pod that never had another gate.
	Alone time.Time
	// Untried is since when this replica has seen the pod Untried; zero for a pod that is not.
	Untried time.Time
	Now     time.Time
}

// GateDecision says what a pod behind the gate gets.
type GateDecision struct {
	// Nominate is the node to write into status.nominatedNodeName; "" for none.
	Nominate string
	// Withdraw tells to empty status.nominatedNodeName.
	Withdraw bool
	// Open tells to remove this gate, and no other one.
	Open bool
	// Again is when to decide again about a pod whose gate stays; 0 for never.
	Again   time.Duration
	Reason  string
	Message string
}

// Asks returns the node that a gated pod asks for, if that is one of the pod's homes and no
// other gate holds the pod back; "" otherwise. Only then more facts are needed.
func (in GateInput) Asks() string {
	name := in.Pod.Annotations[AnnotationNode]
	if !Gated(in.Pod) || len(in.Pod.Spec.SchedulingGates) > 1 || !in.Owned || !slices.Contains(in.Homes, name) {
		return ""
	}
	return name
}

// Pauses tells whether the node is not Ready for a moment.
func (in GateInput) Pauses() bool { return in.Node != nil && fit.Pausing(in.Node, in.Pod, in.Now) }

// PlanGate decides about a pod behind the gate. Usually there is nothing to wait for: the
// scheduler takes the nominated node if the node passes all filters, and another one if it
// does not. A node that has just died still passes all filters, until Kubernetes notices; a
// pod that is bound to such a node hangs until a person deletes it by force.
//
// The scheduler keeps room for a nominated pod, also behind a gate. So a nomination rests on
// facts, never exceeds the room of the node, and is not made while another gate is closed.
func PlanGate(in GateInput) GateDecision {
	name := in.Pod.Annotations[AnnotationNode]
	waited := in.Now.Sub(in.Pod.CreationTimestamp.Time)
	switch {
	case Overstays(in.Pod):
		return GateDecision{Withdraw: true, Reason: ReasonRefused, Message: "the scheduler refuses the pod, so that its nomination is withdrawn"}
	case Untried(in.Pod):
		return outwait(in)
	case !Gated(in.Pod):
		return GateDecision{Reason: ReasonNotGated, Message: "the pod does not wait for a nomination"}
	case name == "":
		return GateDecision{Open: true, Reason: ReasonUngated, Message: "the pod names no node to return to"}
	case !in.Owned:
		return GateDecision{Open: true, Reason: ReasonUnproven, Message: "no workload whose pods return controls the pod"}
	case !slices.Contains(in.Homes, name) && waited < factsGrace:
		return GateDecision{Again: nextLook(waited), Reason: ReasonUnproven, Message: fmt.Sprintf("no record and no reservation names node %s yet", name)}
	case !slices.Contains(in.Homes, name):
		return GateDecision{Open: true, Reason: ReasonUnproven, Message: fmt.Sprintf("no record and no reservation names node %s", name)}
	case len(in.Pod.Spec.SchedulingGates) > 1:
		return GateDecision{Reason: ReasonOtherGates, Message: "the pod waits for its other gates first"}
	}
	return nominateHome(in, name)
}

// nextLook returns when to look again for facts that the cache may not show yet. Usually they are
// there within a second; a forged gate never has any, and is looked at eight times at most.
func nextLook(waited time.Duration) time.Duration {
	if waited < time.Second {
		return factsInterval
	}
	return min(waited, factsGrace-waited)
}

// nominateHome decides about a pod whose home is known and whose last gate is ours.
func nominateHome(in GateInput, name string) GateDecision {
	waited := in.Now.Sub(in.Pod.CreationTimestamp.Time)
	if !in.Alone.IsZero() {
		waited = in.Now.Sub(in.Alone)
	}
	switch {
	case in.Pauses() && waited < leaseGrace:
		return GateDecision{Again: leaseInterval, Reason: ReasonNodePauses, Message: fmt.Sprintf("node %s says that it is not Ready: wait %s for it", name, fit.PauseLimit)}
	case in.Node == nil || fit.Unreachable(in.Node):
		return GateDecision{Open: true, Reason: ReasonUngated, Message: fmt.Sprintf("node %s cannot be reached or does not exist", name)}
	case in.Silent && waited < leaseGrace:
		return GateDecision{Again: leaseInterval, Reason: ReasonNodeSilent, Message: fmt.Sprintf("node %s has not renewed its lease: wait for it, or for the verdict that it is not Ready", name)}
	}
	if what := excludes(in.Pod); what != "" {
		return GateDecision{Open: true, Reason: ReasonUngated, Message: fmt.Sprintf("the pod has %s, which would keep other pods from node %s while it waits", what, name)}
	}
	if short := fit.Shortage(in.Node, in.Pod, in.Others); short != "" {
		return GateDecision{Open: true, Reason: ReasonNoRoom, Message: fmt.Sprintf("node %s has too little %s left", name, short)}
	}
	return GateDecision{Nominate: name, Open: true, Reason: ReasonNominated, Message: fmt.Sprintf("the scheduler tries node %s first", name)}
}

// Gated tells whether a pod waits behind the gate, and is not being deleted.
func Gated(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == Gate })
}

// Overstays tells whether a nomination of ours outlives its use, and holds room for a pod
// that the scheduler does not place. The scheduler itself takes the nomination from a pod
// that it refuses, unless the pod never preempts others; it nominates no such pod either.
// No nomination of ours is on a gated pod, except while the gate is being opened.
func Overstays(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == "" || Gated(pod) {
		return false
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return pod.Status.NominatedNodeName == pod.Annotations[AnnotationNode]
	}
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	return never && refusal(pod) != nil
}

// Untried tells whether a pod has a nomination and is left to another scheduler than the default
// one, which has not said anything about the pod. The default scheduler tries each pod.
func Untried(pod *corev1.Pod) bool {
	ours := pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName
	return !ours && pod.DeletionTimestamp == nil && pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" &&
		len(pod.Spec.SchedulingGates) == 0 && refusal(pod) == nil
}

// outwait gives the scheduler of an untried pod some time, and then withdraws the nomination,
// which holds room on the node. The pod keeps its preference.
func outwait(in GateInput) GateDecision {
	if left := untriedGrace - in.Now.Sub(in.Untried); left > 0 {
		return GateDecision{Again: left, Reason: ReasonUntried, Message: fmt.Sprintf("scheduler %s has not tried the pod yet", in.Pod.Spec.SchedulerName)}
	}
	return GateDecision{Withdraw: true, Reason: ReasonUntried, Message: fmt.Sprintf(
		"scheduler %s has not tried the pod in %s, so that its nomination is withdrawn", in.Pod.Spec.SchedulerName, untriedGrace)}
}

// excludes returns what of a pod may keep others from a node although the pod does not run
// there; "" for nothing. The scheduler counts a nominated pod as if it ran on the node.
//   - A pod with resource claims or a scheduling group may wait without ever being tried,
//     and may be resized meanwhile.
//   - A required anti-affinity to pods of other namespaces counts before it is met.
func excludes(pod *corev1.Pod) string {
	switch {
	case len(pod.Spec.ResourceClaims) > 0:
		return "resource claims"
	case pod.Spec.SchedulingGroup != nil:
		return "a scheduling group"
	case pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil:
		return ""
	}
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return t.NamespaceSelector != nil || slices.ContainsFunc(t.Namespaces, func(ns string) bool { return ns != pod.Namespace })
	}) {
		return "an anti-affinity to pods of other namespaces"
	}
	return ""
}

// Homes returns the nodes to which a pod returns according to facts: the node of its record,
// the home that it had to leave, and the node that holds the addresses of a later life.
func Homes(s *appsv1beta1.PersistentPodState, pod string, holders []Holder) []string {
	var homes []string
	for _, name := range []string{RecordedNode(s, pod), HomeNode(s, pod), NewerHolder(s, pod, holders)} {
		if name != "" {
			homes = append(homes, name)
		}
	}
	return homes
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
