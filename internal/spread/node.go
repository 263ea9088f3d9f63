package spread

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/limpet-io/limpet/internal/platform/fit"
)

// Home is where the pin sends a pod.
type Home struct {
	// Node that is recorded for the pod; nil when it does not exist.
	Node *corev1.Node
	// Place is what the pin requires of the pod's node; nil for nothing. It overrules the spread.
	Place []corev1.NodeSelectorRequirement
	// Room tells that the node has room for the pod. Then no skipped subset keeps the pod from it.
	Room bool
}

// SubsetOf returns the first subset that contains a node, for a pod; "" where none does. Limits
// do not count, and neither do taints by which Kubernetes reports the state of a node.
func SubsetOf(s Spread, pod *corev1.Pod, node *corev1.Node) string {
	if node == nil {
		return ""
	}
	for i := range s.Subsets {
		if newArea(&s.Subsets[i], pod).contains(node) {
			return s.Subsets[i].Name
		}
	}
	return ""
}

// area is the nodes of a subset, for some pods.
type area struct {
	*Subset
	// nodes is nil for all nodes.
	nodes   *nodeaffinity.NodeSelector
	invalid bool
	// pod has the tolerations of the pods.
	pod *corev1.Pod
}

func newArea(s *Subset, pod *corev1.Pod) area {
	a := area{Subset: s}.of(pod)
	if expressions, fields := s.required(); len(expressions)+len(fields) > 0 {
		var err error
		a.nodes, err = nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*s.Required}})
		a.invalid = err != nil
	}
	return a
}

// of is the area for another pod; nil for a pod without tolerations of its own.
func (a area) of(pod *corev1.Pod) area {
	a.pod = &corev1.Pod{}
	a.pod.Spec.Tolerations = a.Tolerations
	if pod != nil {
		a.pod.Spec.Tolerations = slices.Concat(a.Tolerations, pod.Spec.Tolerations)
	}
	return a
}

func newAreas(s Spread, pod *corev1.Pod) []area {
	var areas []area
	for i := range s.Subsets {
		areas = append(areas, newArea(&s.Subsets[i], pod))
	}
	return areas
}

// contains reports whether a pod of the subset may run on a node.
func (a area) contains(node *corev1.Node) bool {
	return !a.invalid && (a.nodes == nil || a.nodes.Match(node)) && !fit.Dedicated(node, a.pod)
}

// holds reports whether a pod of the subset can return home.
func (a area) holds(h Home) bool {
	return (h.Node == nil || a.contains(h.Node)) && !a.invalid && a.agrees(h)
}

// agrees reports whether a node can meet both what the subset and what the pin requires. A subset
// that names its nodes agrees with no place beside the one of its node.
func (a area) agrees(h Home) bool {
	expressions, fields := a.required()
	if len(fields) > 0 && !h.consistent() {
		return false
	}
	for _, p := range h.Place {
		if p.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		meets := func(value string) bool {
			return !slices.ContainsFunc(expressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == p.Key && !fit.Meets(r, value) })
		}
		if !slices.ContainsFunc(p.Values, meets) {
			return false
		}
	}
	return true
}

// takes reports whether a subset that holds a pod's home takes the pod, as far as skips go.
func (a area) takes(h Home) bool {
	if !a.Unschedulable || len(h.Place) > 0 {
		return true
	}
	reason, _ := fit.Obstacle(h.Node, a.pod)
	return h.Room && reason == ""
}

// inPlace leaves out a node that is not in the required place.
func (h Home) inPlace() Home {
	if len(h.Place) > 0 && !h.consistent() {
		h.Node = nil
	}
	return h
}

// known reports whether the pin sends the pod anywhere.
func (h Home) known() bool { return h.Node != nil || len(h.Place) > 0 }

// consistent reports whether the recorded node is in the required place, as far as there is one.
func (h Home) consistent() bool {
	return !slices.ContainsFunc(h.Place, func(r corev1.NodeSelectorRequirement) bool {
		return h.Node == nil || !slices.Contains(r.Values, h.Node.Labels[r.Key])
	})
}

// name is the home as a message names it.
func (h Home) name() string {
	if h.Node != nil {
		return "node " + h.Node.Name
	}
	return "the required place"
}
