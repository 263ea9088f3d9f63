package pin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/fit"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
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
	ReasonLingers    = "Lingers"    // the scheduler refused the pod, and may have nominated its node to preempt others there
)

// ReasonGateNotOpened is the reason of the event on a pod whose gate may not be opened, as
// another admission controller refuses it.
const ReasonGateNotOpened = "GateNotOpened"

const (
	// factsInterval is the time between the first looks at facts that the cache may not show yet. A forged gate never has
	// any, and is looked at a few times.
	factsInterval = 250 * time.Millisecond
	// factsGrace is the longest wait for such facts. The webhook may have read them from the API server.
	factsGrace = 5 * time.Second
	// leaseInterval is the time between two looks at the lease of a silent node.
	leaseInterval = 2 * time.Second
	// leaseGrace is the longest wait for a silent node, or one that pauses, since the pod waits for
	// no other gate. By default Kubernetes finds a silent node NotReady after 50 s.
	leaseGrace = time.Minute
	// untriedGrace is how long a pod of another scheduler than the default one may keep its
	// nomination without a verdict. That scheduler may not exist.
	untriedGrace = 5 * time.Minute
	// lingerGrace is how long a refused pod may keep its nomination while no pod ends on the node. The
	// scheduler takes it away at once, unless its profile lacks the plugin DefaultPreemption.
	lingerGrace = 30 * time.Second
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
	// Ending tells that another pod ends on the nominated node: it may have been preempted.
	Ending bool
	// Since is when this replica first saw the pod in its Stage. Other clocks may be wrong.
	Since time.Time
	Now   time.Time
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

// pauses reports whether the node is not Ready for a moment, or has the taint of that still.
func (in GateInput) pauses() bool { return in.Node != nil && fit.Pausing(in.Node, in.Pod, in.Now) }

// PlanGate decides about a pod behind the gate. Usually there is nothing to wait for: the
// scheduler takes the nominated node if the node passes all filters, and another one if it
// does not. A node that has just died still passes all filters, until Kubernetes notices; a
// pod that is bound to such a node hangs until a person deletes it by force.
//
// The scheduler keeps room for a nominated pod, also behind a gate. So a nomination rests on
// facts, never exceeds the room of the node, and is not made while another gate is closed.
func PlanGate(in GateInput) GateDecision {
	switch stage := Stage(in.Pod); {
	case stage == ReasonRefused:
		return GateDecision{Withdraw: true, Reason: stage, Message: "the scheduler refuses the pod, so that its nomination is withdrawn"}
	case stage == ReasonLingers && in.Ending:
		return GateDecision{Again: lingerGrace, Reason: stage, Message: "the scheduler may have preempted a pod for this one"}
	case stage == ReasonLingers:
		return outwait(in, stage, lingerGrace, "has refused the pod and left its nomination")
	case stage == ReasonUntried:
		return outwait(in, stage, untriedGrace, "has not tried the pod")
	case stage == "":
		return GateDecision{Reason: ReasonNotGated, Message: "the pod does not wait for a nomination"}
	}
	return proveHome(in)
}

// proveHome looks for what says that a gated pod returns to the node that it names.
func proveHome(in GateInput) GateDecision {
	name, waited := in.Pod.Annotations[AnnotationNode], in.Now.Sub(in.Since)
	switch proven := slices.Contains(in.Homes, name); {
	case name == "":
		return GateDecision{Open: true, Reason: ReasonUngated, Message: "the pod names no node to return to"}
	case !in.Owned:
		return GateDecision{Open: true, Reason: ReasonUnproven, Message: "no workload whose pods return controls the pod"}
	case !proven && waited < factsGrace:
		return GateDecision{Again: min(max(waited, factsInterval), factsGrace-waited), Reason: ReasonUnproven, Message: fmt.Sprintf("no record and no reservation names node %s yet", name)}
	case !proven:
		return GateDecision{Open: true, Reason: ReasonUnproven, Message: fmt.Sprintf("no record and no reservation names node %s", name)}
	case len(in.Pod.Spec.SchedulingGates) > 1:
		return GateDecision{Reason: ReasonOtherGates, Message: "the pod waits for its other gates first"}
	}
	return nominateHome(in, name)
}

// nominateHome decides about a pod whose home is known and whose last gate is ours.
func nominateHome(in GateInput, name string) GateDecision {
	waited := in.Now.Sub(in.Since)
	switch {
	case in.pauses() && waited < leaseGrace:
		return GateDecision{Again: leaseInterval, Reason: ReasonNodePauses, Message: fmt.Sprintf("node %s is not Ready, or was not a moment ago: wait for it", name)}
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

// Gated reports whether a pod waits behind the gate, and is not being deleted.
func Gated(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == Gate })
}

// Stage tells what a pod with our gate or with a nomination waits for; "" for a pod that needs no decision. A nomination of ours
// may outlive its use, and hold room for a pod that the scheduler does not place.
func Stage(pod *corev1.Pod) string {
	nominated, gates, refused := pod.Status.NominatedNodeName, len(pod.Spec.SchedulingGates), refusal(pod) != nil
	ours := nominated == pod.Annotations[AnnotationNode]
	switch {
	case Gated(pod) && gates > 1:
		return ReasonOtherGates
	case Gated(pod):
		return Gate
	case pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" || nominated == "":
		return ""
	case gates > 0 && ours: // which none of ours has, except while our gate is being opened
		return ReasonRefused
	case gates > 0:
		return ""
	case refused && neverPreempts(pod): // the scheduler nominates no such pod, and takes the nomination from none
		return ReasonRefused
	case refused && ours: // the scheduler takes it away, unless it lacks preemption
		return ReasonLingers
	case !refused && cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName) != corev1.DefaultSchedulerName: // which may try no pod
		return ReasonUntried
	}
	return ""
}

func neverPreempts(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
}

// outwait gives the scheduler some time, and then withdraws the nomination, which holds room on the node.
// The pod keeps its preference.
func outwait(in GateInput, stage string, grace time.Duration, what string) GateDecision {
	scheduler := cmp.Or(in.Pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
	if left := grace - in.Now.Sub(in.Since); left > 0 {
		return GateDecision{Again: left, Reason: stage, Message: fmt.Sprintf("scheduler %s %s", scheduler, what)}
	}
	return GateDecision{Withdraw: true, Reason: stage, Message: fmt.Sprintf(
		"scheduler %s %s for %s, so that it is withdrawn", scheduler, what, grace)}
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

// nominates reports whether the pod must return to the recorded node itself: it asks for an
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

// oneNode reports whether a topology key selects the recorded node alone.
func oneNode(key string, record appsv1beta1.PodState) bool {
	value, recorded := record.NodeTopologyLabels[key]
	return recorded && (key == corev1.LabelHostname || value == record.NodeName)
}
