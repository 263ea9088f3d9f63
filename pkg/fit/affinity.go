package fit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Admits tells whether a node meets the pod's own node selector and required affinity. A
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

// Excludes tells whether the pod's own node selector or required affinity rules out a
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
		return !termExcludes(t, key, value)
	})
}

func termExcludes(term corev1.NodeSelectorTerm, key, value string) bool {
	return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		if r.Key != key {
			return false
		}
		switch r.Operator {
		case corev1.NodeSelectorOpIn:
			return !slices.Contains(r.Values, value)
		case corev1.NodeSelectorOpNotIn:
			return slices.Contains(r.Values, value)
		case corev1.NodeSelectorOpDoesNotExist:
			return true
		default: // the rest compares numbers or asks for presence, which the scheduler decides
			return false
		}
	})
}
