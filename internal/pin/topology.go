package pin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// setTopologyUnknown sets ConditionTopologyUnknown on states whose pods run on nodes without a
// label that the spec names. Such a key requires and prefers nothing.
func setTopologyUnknown(in RecordInput, records map[string]appsv1beta1.PodState, conditions *[]metav1.Condition) {
	message := unknownTopology(in, records)
	if message == "" {
		meta.RemoveStatusCondition(conditions, appsv1beta1.ConditionTopologyUnknown)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               appsv1beta1.ConditionTopologyUnknown,
		Status:             metav1.ConditionTrue,
		Reason:             appsv1beta1.ReasonNodeLabelMissing,
		Message:            message + "; remedy: correct the key, or label the nodes",
		ObservedGeneration: in.State.Generation,
		LastTransitionTime: metav1.NewTime(in.Now),
	})
}

// unknownTopology says which keys the nodes of recorded pods lack, each with the node of the
// first such pod; "" for none.
func unknownTopology(in RecordInput, records map[string]appsv1beta1.PodState) string {
	missing := map[string]string{} // the node by its missing key
	for _, pod := range slices.Backward(slices.Sorted(maps.Keys(records))) {
		node := in.Nodes[records[pod].NodeName]
		if node == nil || !Incomplete(in.State, records[pod]) {
			continue
		}
		for _, key := range Keys(in.State) {
			if _, has := node.Labels[key]; !has {
				missing[key] = node.Name
			}
		}
	}
	var said []string
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		if len(said) == maxNamed {
			said = append(said, fmt.Sprintf("and %d further keys", len(missing)-maxNamed))
			break
		}
		does := "prefers"
		if term := in.State.Spec.RequiredPersistentTopology; term != nil && slices.Contains(term.Keys, key) {
			does = "requires"
		}
		said = append(said, fmt.Sprintf("node %s has no label %s, which therefore %s nothing of its pods", missing[key], cut(key), does))
	}
	return strings.Join(said, "; ")
}

// unrecorded returns the first key that a state wants and a record lacks, and whether it is a
// required one; "" for none.
func unrecorded(s *appsv1beta1.PersistentPodState, record appsv1beta1.PodState) (key string, required bool) {
	for i, key := range Keys(s) {
		if _, known := record.NodeTopologyLabels[key]; !known {
			term := s.Spec.RequiredPersistentTopology
			return key, term != nil && i < len(distinct(term.Keys)) // Keys begins with the required ones
		}
	}
	return "", false
}
