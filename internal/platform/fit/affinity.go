package fit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Admits reports whether a node meets the pod's own node selector and required affinity. A
// selector that cannot be parsed is left to the scheduler.
func Admits(pod *corev1.Pod, node *corev1.Node) bool {
	met, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return met || err != nil
}

// WithLabels returns the nodes that have all of some labels.
func WithLabels(nodes []*corev1.Node, want labels.Set) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
		return !want.AsSelectorPreValidated().Matches(labels.Set(n.Labels))
	})
}

// FilterOrAll returns the nodes for which a predicate holds, or all nodes when it holds
// for none of them.
func FilterOrAll(nodes []*corev1.Node, holds func(*corev1.Node) bool) []*corev1.Node {
	some := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !holds(n) })
	if len(some) == 0 {
		return nodes
	}
	return some
}

// Excludes reports whether the pod's own node selector or required affinity rules out a
// label in every alternative.
func Excludes(pod *corev1.Pod, key, value string) bool {
	if own, ok := pod.Spec.NodeSelector[key]; ok && own != value {
		return true
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == key && !Meets(r, value) })
	})
}

// Meets reports whether a label with a value meets a requirement about the label. No value meets a
// requirement that cannot be parsed.
func Meets(r corev1.NodeSelectorRequirement, value string) bool {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{r.Key: value}}}
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{r}}},
	})
	return err == nil && selector.Match(node)
}
