package pin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// verdict is what becomes of a pod that is being created.
type verdict int

const (
	// Leave means that the pod is created as its owner wrote it.
	Leave verdict = iota
	// Pin means that the pod gets the Decision's patch.
	Pin
)

// Reasons of a Decision.
const (
	ReasonNoState      = "NoState"        // no PersistentPodState has the workload as its target
	ReasonNoRecord     = "NoRecord"       // the pod was never Ready under this name
	ReasonNodeGone     = fit.NodeGone     // the recorded node does not exist
	ReasonNodeNotReady = fit.NodeNotReady // the recorded node is NotReady or silent
	ReasonNodeCordoned = fit.NodeCordoned // the recorded node is cordoned
	ReasonNodeTainted  = fit.NodeTainted  // the recorded node has a taint that the pod does not tolerate
	ReasonNodeOutOfIPs = fit.NodeOutOfIPs // the recorded node has no free address
	ReasonPodElsewhere = "PodElsewhere"   // the pod itself asks for another place
	ReasonPinned       = "Pinned"         // the pod returns

	// ReasonSubsetElsewhere: the subset of the pod does not contain the recorded node.
	ReasonSubsetElsewhere = "SubsetElsewhere"
)

// Weights that a preference can have in a pod.
const (
	minWeight = 1
	maxWeight = 100
)

// Input is what a Decision is made of.
type Input struct {
	// Pod that is being created.
	Pod *corev1.Pod
	// State in force for the pod's owner; nil when there is none.
	State *appsv1beta1.PersistentPodState
	// Node that is recorded for the pod; nil when it does not exist.
	Node *corev1.Node
	// Retains tells that the pod asks to keep its addresses.
	Retains bool
	// Holds tells that the recorded node holds addresses for the pod.
	Holds bool
	// Recalled tells that the recorded node was found by the addresses of a later life.
	Recalled bool
	// Pools of the recorded node, one for each network of Limpet.
	Pools []limpetv1alpha1.NodeIPPool
	// Cluster is all nodes; it is needed only where the State requires a place.
	Cluster []*corev1.Node
	// Now is the time of the decision.
	Now time.Time
}

// Decision says what to do with a pod and why.
type Decision struct {
	Verdict verdict
	Reason  string
	Message string
	Patch   podpatch.Patch
}

// RecordedNode returns the node that a state records for a pod; "" for none.
func RecordedNode(s *appsv1beta1.PersistentPodState, pod string) string {
	if s == nil {
		return ""
	}
	return s.Status.PodStates[pod].NodeName
}

// Plan decides what a pod that is being created gets so that it returns.
//
// The recorded node is nominated behind a gate, since the scheduler's other preferences can
// outweigh a mere preference. A preferred place on a node that cannot take the pod is left
// out, so that the pod starts elsewhere at once. A required place stays, unless the user
// releases the pod from it.
//
// Templates can be copied from running pods. Plan drops the annotations of an earlier plan,
// or every new pod would be pinned or released again.
func Plan(in Input) Decision {
	d := plan(in)
	for _, key := range planned {
		_, has := in.Pod.Annotations[key]
		if _, given := d.Patch.Annotations[key]; has && !given {
			d.Patch.Drop = append(d.Patch.Drop, key)
		}
	}
	return d
}

// Sealed returns a patch of Plan that drops the annotations of a plan also where the pod lacks
// them: the patch of a subset, which comes later, can name any annotation.
func Sealed(p podpatch.Patch) podpatch.Patch {
	p.Drop = nil
	for _, key := range planned {
		if _, given := p.Annotations[key]; !given {
			p.Drop = append(p.Drop, key)
		}
	}
	return p
}

// Overruled is what remains of a plan if a later planner sends the pod elsewhere.
func Overruled() podpatch.Patch {
	return Sealed(podpatch.Patch{Annotations: map[string]string{AnnotationUnpinned: ReasonSubsetElsewhere}})
}

func plan(in Input) Decision {
	if in.State == nil {
		return Decision{Reason: ReasonNoState, Message: "no PersistentPodState has the pod's owner as its target"}
	}
	record, ok := in.State.Status.PodStates[in.Pod.Name]
	if !ok || record.NodeName == "" {
		return Decision{Reason: ReasonNoRecord, Message: "no place is recorded for the pod"}
	}
	record = completed(in.State, record, in.Node)
	d := Decision{
		Verdict: Pin,
		Reason:  ReasonPinned,
		Message: fmt.Sprintf("the pod returns to node %s", record.NodeName),
		Patch:   podpatch.Patch{Annotations: annotated(in, record)},
	}
	place, given := required(in, record)
	if len(place) > 0 && PlanPlace(placeInput(in, place, record)).Verdict == Hold {
		d.Patch.Annotations[podpatch.AnnotationPlace] = place.String()
		for _, key := range slices.Sorted(maps.Keys(place)) {
			d.Patch.Required = append(d.Patch.Required, is(key, place[key]))
		}
	}
	here := in.Node == nil || fit.Admits(in.Pod, in.Node)
	if given == "" && !here {
		given = fmt.Sprintf("the pod itself asks for a node that %s is not", record.NodeName)
	}
	if given != "" {
		d.Reason, d.Message = ReasonPodElsewhere, given
	}
	reason, message := obstacle(in, record)
	if reason != "" {
		d.Reason = reason
		d.Message = fmt.Sprintf("node %s %s", record.NodeName, message)
	}
	d.Patch.Preferred = preferred(in.State, record, reason == "" && here)
	if d.Reason != ReasonPinned {
		d.Patch.Annotations[AnnotationUnpinned] = d.Reason
	}
	if d.Reason == ReasonPinned && nominates(in, record) {
		d.Patch.Gates = []string{Gate}
		d.Patch.Annotations[AnnotationNode] = record.NodeName
	}
	return d
}

// obstacle says why the recorded node cannot take the pod; "" when it can, or soon will.
func obstacle(in Input, record appsv1beta1.PodState) (reason, message string) {
	reason, message = fit.Obstacle(in.Node, in.Pod)
	switch {
	case reason != "" && (in.Node == nil || !fit.Pausing(in.Node, in.Pod, in.Now)):
		return reason, message
	case !in.Holds && !in.Pod.Spec.HostNetwork && fit.Exhausted(in.Pools, record.IPs):
		return ReasonNodeOutOfIPs, "has no address left"
	}
	return "", "" // the pod waits behind its gate while the node pauses
}

// planned are the annotations that only Plan may set; they are never put back from a record.
var planned = []string{appsv1beta1.AnnotationInjected, AnnotationFormer, AnnotationMayReturn, AnnotationNode, podpatch.AnnotationPlace, AnnotationRecalled, AnnotationUnpinned}

// annotated returns the annotations of a pinned pod, in whatever state its node is.
func annotated(in Input, record appsv1beta1.PodState) map[string]string {
	out := putBack(in, record.Annotations)
	if in.State.Name != "" { // otherwise it is that of an owner
		out[appsv1beta1.AnnotationInjected] = in.State.Name
	}
	if home := mayReturn(in.State, record); home != "" {
		out[AnnotationMayReturn] = home
	}
	if !in.Recalled {
		return out
	}
	out[AnnotationRecalled] = record.NodeName
	if record.UID != "" && record.IPs != "" {
		out[AnnotationFormer] = string(record.UID) + " " + record.IPs
	}
	return out
}

// copied are the annotations that a pod has from its workload or its namespace, as long as these ask for them.
var copied = []string{reservation.KeepAnnotation, AnnotationKeepFrom}

// putBack returns the recorded annotations that the spec names and the pod does not set itself.
// The spec is the user's. A record is written with the controller's token alone, which must
// not set any annotation of any pod.
func putBack(in Input, recorded map[string]string) map[string]string {
	back := map[string]string{}
	for _, named := range in.State.Spec.PersistentPodAnnotations {
		value, has := recorded[named.Key]
		_, set := in.Pod.Annotations[named.Key]
		if has && !set && !slices.Contains(planned, named.Key) && !slices.Contains(copied, named.Key) {
			back[named.Key] = value
		}
	}
	return back
}

func placeInput(in Input, place labels.Set, record appsv1beta1.PodState) PlaceInput {
	return PlaceInput{Pod: in.Pod, Place: place, State: in.State, Record: record, Nodes: in.Cluster, Now: in.Now}
}

// required returns the place that is required of the pod, without labels that the pod itself
// excludes; and a message about such labels, if any.
func required(in Input, record appsv1beta1.PodState) (place labels.Set, given string) {
	term := in.State.Spec.RequiredPersistentTopology
	if term == nil {
		return nil, ""
	}
	place = labels.Set{}
	var keys []string
	for _, key := range distinct(term.Keys) {
		value, recorded := record.NodeTopologyLabels[key]
		switch {
		case !recorded:
		case fit.Excludes(in.Pod, key, value):
			keys = append(keys, key)
		default:
			place[key] = value
		}
	}
	switch {
	case unmeetable(in, place):
		return nil, fmt.Sprintf("the pod itself asks for a node that none with %s is", place)
	case len(keys) > 0:
		given = fmt.Sprintf("the pod itself asks for another %s than the recorded one", strings.Join(keys, ", "))
	}
	return place, given
}

// unmeetable reports whether the pod itself rules out every node of a place, so that it
// would wait there forever. Nothing is known while the recorded node is gone: it may have
// been the node that the pod asks for.
func unmeetable(in Input, place labels.Set) bool {
	there := fit.WithLabels(in.Cluster, place)
	return len(place) > 0 && in.Node != nil && len(there) > 0 &&
		!slices.ContainsFunc(there, func(n *corev1.Node) bool { return fit.Admits(in.Pod, n) })
}

// preferred returns one term for each item of the spec, in order. Items that select the
// recorded node alone are left out when that node cannot take the pod.
func preferred(state *appsv1beta1.PersistentPodState, record appsv1beta1.PodState, fits bool) []corev1.PreferredSchedulingTerm {
	var terms []corev1.PreferredSchedulingTerm
	for _, item := range usablePreferences(state) {
		var reqs []corev1.NodeSelectorRequirement
		alone := false
		for _, key := range distinct(item.Preference.Keys) {
			value, recorded := record.NodeTopologyLabels[key]
			if !recorded {
				continue
			}
			alone = alone || oneNode(key, record)
			reqs = append(reqs, is(key, value))
		}
		if len(reqs) == 0 || alone && !fits {
			continue
		}
		terms = append(terms, corev1.PreferredSchedulingTerm{
			Weight:     item.Weight,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: reqs},
		})
	}
	return terms
}

// usablePreferences returns the preferred items with weights that the API server accepts.
// Stored objects of OpenKruise may have any weight: less than 1 drops the item, more than
// 100 counts as 100.
func usablePreferences(state *appsv1beta1.PersistentPodState) []appsv1beta1.PreferredTopologyTerm {
	var items []appsv1beta1.PreferredTopologyTerm
	for _, item := range state.Spec.PreferredPersistentTopology {
		if item.Weight >= minWeight {
			item.Weight = min(item.Weight, maxWeight)
			items = append(items, item)
		}
	}
	return items
}

// weightWarning says what is made of weights that the API server refuses; "" for none.
func weightWarning(state *appsv1beta1.PersistentPodState) string {
	var said strings.Builder
	for i, item := range state.Spec.PreferredPersistentTopology {
		switch {
		case item.Weight < minWeight:
			fmt.Fprintf(&said, "; preferredPersistentTopology[%d] has weight %d and is left out", i, item.Weight)
		case item.Weight > maxWeight:
			fmt.Fprintf(&said, "; preferredPersistentTopology[%d] has weight %d, which counts as %d", i, item.Weight, maxWeight)
		}
	}
	if said.Len() == 0 {
		return ""
	}
	return said.String() + fmt.Sprintf("; set weights of %d to %d", minWeight, maxWeight)
}

func is(key, value string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

// distinct returns keys without repetitions, in order.
func distinct(keys []string) []string {
	var out []string
	for _, k := range keys {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}
