package pin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// admits tells whether the pod's own selector and required affinity, all of them together,
// are met by a node. What cannot be read is left to the scheduler.
func admits(pod *corev1.Pod, node *corev1.Node) bool {
	met, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return met || err != nil
}

// unmeetable tells whether the pod itself rules out every node of a place, so that it
// would wait there for ever. While the recorded node is gone nobody can know: it may have
// been the one that the pod asks for.
func unmeetable(in Input, place labels.Set) bool {
	there := nodesOf(in.Cluster, place)
	return len(place) > 0 && in.Node != nil && len(there) > 0 &&
		!slices.ContainsFunc(there, func(n *corev1.Node) bool { return admits(in.Pod, n) })
}

// nodesOf are the nodes of a place.
func nodesOf(cluster []*corev1.Node, place labels.Set) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(cluster), func(n *corev1.Node) bool {
		return !place.AsSelectorPreValidated().Matches(labels.Set(n.Labels))
	})
}

// excludes tells whether the pod's own selector and required affinity rule out the
// label in every alternative.
func excludes(pod *corev1.Pod, key, value string) bool {
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
		default: // the rest compares numbers or asks for presence; the scheduler sees to it
			return false
		}
	})
}
