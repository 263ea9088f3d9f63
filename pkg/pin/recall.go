package pin

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Holders returns the nodes that hold the addresses of a pod, from what the nodes'
// agents show for its name; first the one that the pod was on last: where it is attached,
// else where its addresses are kept longest. What is shown of a node that is not Ready
// may be long out of date, so it comes after all others.
func Holders(reservations []limpetv1alpha1.IPReservation, nodes map[string]*corev1.Node, now time.Time) []string {
	var held []*limpetv1alpha1.IPReservationStatus
	for i := range reservations {
		if s := &reservations[i].Status; s.Until == nil || s.Until.After(now) {
			held = append(held, s)
		}
	}
	rank := func(s *limpetv1alpha1.IPReservationStatus) (rank int) {
		if s.Until != nil {
			rank++
		}
		if node := nodes[s.Node]; node == nil || !ready(node.Status.Conditions) {
			rank += 2
		}
		return rank
	}
	slices.SortStableFunc(held, func(a, b *limpetv1alpha1.IPReservationStatus) int {
		if order := cmp.Compare(rank(a), rank(b)); order != 0 || a.Until == nil {
			return order
		}
		return b.Until.Compare(a.Until.Time)
	})
	var names []string
	for _, s := range held {
		if !slices.Contains(names, s.Node) {
			names = append(names, s.Node)
		}
	}
	return names
}

// Doubtful tells whether what a state holds for a pod should not be believed: nothing, or
// a node that holds none of the pod's addresses while others do.
func Doubtful(s *appsv1beta1.PersistentPodState, pod string, holders []string) bool {
	name := RecordedNode(s, pod)
	return name == "" || len(holders) > 0 && !slices.Contains(holders, name)
}

// Recall returns the state with a record of the pod on the node that holds its addresses,
// as it would be had it not been lost, or had there been a controller to write it. A
// required place that is recorded stays, for it may be asked for because of other things
// than an address.
func Recall(s *appsv1beta1.PersistentPodState, pod string, node *corev1.Node) *appsv1beta1.PersistentPodState {
	record := s.Status.PodStates[pod]
	if term := s.Spec.RequiredPersistentTopology; term != nil {
		for _, key := range term.Keys {
			if value, recorded := record.NodeTopologyLabels[key]; recorded && value != node.Labels[key] {
				return s
			}
		}
	}
	out := s.DeepCopy()
	if out.Status.PodStates == nil {
		out.Status.PodStates = map[string]appsv1beta1.PodState{}
	}
	record.NodeName, record.NodeTopologyLabels = node.Name, topology(s, node)
	out.Status.PodStates[pod] = record
	return out
}

// topology is the values that a node has for the wanted keys.
func topology(s *appsv1beta1.PersistentPodState, node *corev1.Node) map[string]string {
	var values map[string]string
	for _, key := range Keys(s) {
		if value, ok := node.Labels[key]; ok {
			set(&values, key, value)
		}
	}
	return values
}
