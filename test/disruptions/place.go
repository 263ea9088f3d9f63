package disruptions

import (
	"slices"
	"strings"
)

// nodeEvent applies a change of a node.
func (c *checker) nodeEvent(e Event) {
	n := e.Node
	c.taints[n.Name], c.ending[n.Name] = n.Taints, n.Deleting
	switch _, known := c.closed[n.Name]; {
	case !n.Unschedulable:
		delete(c.closed, n.Name)
	case !known:
		c.closed[n.Name] = e.Done
	}
}

// staying are the vectors after which a pod is there, or is not wanted any more.
var staying = []Vector{Update, Resize, Leave, ScaleIn, Teardown}

// place finds a pod that went although its node took no pods, so that the rebuilt pod has
// another address. A cache may not have known of the node yet. A deletion by a workload's
// controller may have been a scale-in when it was admitted.
func (c *checker) place(e Event, b *budget, before *pod, v Vector) {
	since, closed := c.closed[before.Node]
	if !b.KeepPlace || !before.KeepsPlace || !closed || slices.Contains(staying, v) || e.byController(before) || b.youngerThan(c.known(e.Received)) {
		return
	}
	if since.Before(c.known(e.Received)) {
		c.violate(Place, e, b, before.Name, "%s by %s from node %s, which takes no pods since %s", v, e.User, before.Node, clock(since))
	}
}

// promises reports whether a refusal is about units. A budget of Kubernetes, or a place that
// would be lost, refuses while units are free.
func (e Event) promises() bool {
	return !strings.Contains(e.Message, "PodDisruptionBudget ") && !strings.Contains(e.Message, " keeps places, and ")
}
