package console

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// HomeParts are the facts that tell where a rebuilt pod returns to.
var HomeParts = []facts.Part{facts.Nodes, facts.Pods, facts.Pools, facts.Kept, facts.States, facts.Spreads, facts.ReplicaSets}

// home decides what a pod would get if it were rebuilt now, as the webhook decides, but that the pod proves its last place
// itself, and that ranges of a NodeNetwork are not read. cordoned are names of nodes that are taken as cordoned.
func home(f *facts.Facts, pod *corev1.Pod, cordoned []string) pin.Decision {
	in := pin.Input{Pod: again(pod), State: stateOf(f, pod), Retains: retains(pod), Cluster: cluster(f, cordoned), Now: f.Now}
	nodes := map[string]*corev1.Node{}
	for _, node := range in.Cluster {
		nodes[node.Name] = node
	}
	held := pin.Holders(keptFor(f, pod.Namespace, reservation.OwnerName(pod.Name, pod.Annotations)), nodes, f.Now)
	switch {
	case owner(pod) != "":
		in.State, _ = pin.HomeOfOwner(in.Pod, pin.Proven(held, appsv1beta1.PodState{}, lifeOf(pod, f.Now)), nodes)
		in.Holds = in.State != nil
	case in.State != nil && in.Retains:
		in = pin.Restored(in, held, pin.Proven(held, in.State.Status.PodStates[pod.Name], lifeOf(pod, f.Now)), nodes)
	}
	recorded := pin.RecordedNode(in.State, pod.Name)
	in.Node = nodes[recorded]
	for _, pool := range f.Pools {
		if pool.Status.Node == recorded {
			in.Pools = append(in.Pools, pool)
		}
	}
	return pin.Plan(in)
}

// owner returns the owner whose addresses a pod has; "" for a pod that has those of its own name.
func owner(pod *corev1.Pod) string { return reservation.OwnerName("", pod.Annotations) }

// lifeOf returns the life of a pod that has addresses on its node, and can leave them to the next one; nil for another pod.
func lifeOf(pod *corev1.Pod, now time.Time) *pin.Life {
	if pod.Spec.NodeName == "" || len(pod.Status.PodIPs) == 0 {
		return nil
	}
	return &pin.Life{UID: pod.UID, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time, Seen: now}
}

// unknownHome says what was not read of that on which the home of a pod depends.
func unknownHome(f *facts.Facts, pod *corev1.Pod) string {
	if why := f.Unknown(facts.States, facts.Kept, facts.Spreads, facts.ReplicaSets); why != "" || stateOf(f, pod) == nil && owner(pod) == "" {
		return why
	}
	return f.Unknown(facts.Nodes, facts.Pools)
}

// again returns a pod as its controller would make it again: without a node, a UID, and what
// Limpet added. The template may have more; what a user wrote stays.
func again(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.UID, p.ResourceVersion, p.DeletionTimestamp = types.UID(""), "", nil
	p.Spec.NodeName, p.Status = "", corev1.PodStatus{}
	if _, pinned := p.Annotations[appsv1beta1.AnnotationInjected]; pinned && p.Spec.Affinity != nil {
		p.Spec.Affinity.NodeAffinity = nil // a term of the user's own cannot be told from that of the pin
	}
	return p
}

// stateOf returns the PersistentPodState that is in force for a pod; nil for none.
func stateOf(f *facts.Facts, pod *corev1.Pod) *appsv1beta1.PersistentPodState {
	owner, ok := workload.OwnerOf(pod)
	if !ok {
		return nil
	}
	var states []appsv1beta1.PersistentPodState
	for i := range f.States {
		if s := &f.States[i]; s.Namespace == pod.Namespace && pin.TargetOf(s) == owner {
			states = append(states, *s)
		}
	}
	return pin.Choose(states)
}

// keptFor returns the IPReservations of the name of a pod or of an owner.
func keptFor(f *facts.Facts, namespace, name string) []limpetv1alpha1.IPReservation {
	var kept []limpetv1alpha1.IPReservation
	for i := range f.Reservations {
		if r := &f.Reservations[i]; r.Namespace == namespace && r.Status.Pod == name {
			kept = append(kept, *r)
		}
	}
	return kept
}

// NamespacesOf returns the namespaces in which a pod of a name exists, or is known.
func NamespacesOf(f *facts.Facts, name string) []string {
	found := map[string]bool{}
	for _, p := range f.Pods {
		found[p.Namespace] = found[p.Namespace] || p.Name == name
	}
	for _, r := range f.Reservations {
		found[r.Namespace] = found[r.Namespace] || r.Status.Pod == name
	}
	for _, s := range f.States {
		_, recorded := s.Status.PodStates[name]
		found[s.Namespace] = found[s.Namespace] || recorded
	}
	maps.DeleteFunc(found, func(_ string, known bool) bool { return !known })
	return slices.Sorted(maps.Keys(found))
}

// longest is the longest reservation that the default configuration gives.
const longest = 24 * time.Hour

// retains reports whether a pod asks to keep its addresses.
func retains(pod *corev1.Pod) bool {
	asked, _ := reservation.ParseRetentionRequest(pod.Annotations, longest)
	return asked.Retain > 0
}

// cluster returns all nodes, with those of the names cordoned.
func cluster(f *facts.Facts, cordoned []string) []*corev1.Node {
	nodes := make([]*corev1.Node, 0, len(f.Nodes))
	for i := range f.Nodes {
		node := &f.Nodes[i]
		if slices.Contains(cordoned, node.Name) {
			node = node.DeepCopy()
			node.Spec.Unschedulable = true
		}
		nodes = append(nodes, node)
	}
	return nodes
}
