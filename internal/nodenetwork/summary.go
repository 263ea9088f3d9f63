package nodenetwork

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Bounds of the status. A stolen token of an agent may write any text.
const (
	maxFailures = 10
	maxNames    = 10
	maxText     = 512
)

// Input is what the status of a NodeNetwork is made of.
type Input struct {
	Object v1alpha1.NodeNetwork
	Pools  []v1alpha1.NodeIPPool
	// Joined reports whether a node is in the cluster.
	Joined func(node string) bool
	Now    metav1.Time
}

// Summarize returns the status: how many nodes have the settings, and why others do not.
func Summarize(in Input) v1alpha1.NodeNetworkStatus {
	s := v1alpha1.NodeNetworkStatus{ObservedGeneration: in.Object.Generation}
	for node, c := range conditions(in.Pools) {
		s.Nodes++
		switch {
		case c.ObservedGeneration != in.Object.Generation || c.Reason == v1alpha1.ReasonNodeNetworkDeleted:
		case c.Status == metav1.ConditionTrue:
			s.Applied++
		default:
			s.Failing++
			s.Failures = append(s.Failures, v1alpha1.NodeFailure{Node: node, Reason: c.Reason, Message: short(c.Message)})
		}
	}
	slices.SortFunc(s.Failures, func(a, b v1alpha1.NodeFailure) int { return strings.Compare(a.Node, b.Node) })
	s.Failures = s.Failures[:min(len(s.Failures), maxFailures)]
	s.Conditions = slices.Clone(in.Object.Status.Conditions)
	applied := appliedCondition(s, unknownNodes(in))
	applied.ObservedGeneration, applied.LastTransitionTime = in.Object.Generation, in.Now
	meta.SetStatusCondition(&s.Conditions, applied)
	return s
}

// conditions returns the condition of each node that tells one. Of several pools of a node the first by name counts.
func conditions(pools []v1alpha1.NodeIPPool) map[string]metav1.Condition {
	slices.SortFunc(pools, func(a, b v1alpha1.NodeIPPool) int { return strings.Compare(a.Name, b.Name) })
	of := map[string]metav1.Condition{}
	for _, p := range pools {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionConfigured)
		if _, known := of[p.Status.Node]; c != nil && !known {
			of[p.Status.Node] = *c
		}
	}
	return of
}

func appliedCondition(s v1alpha1.NodeNetworkStatus, unknown []string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionFalse}
	switch {
	case s.Nodes == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonNoNodes, "no agent reports: only agents with --network=own read a NodeNetwork"
	case s.Failing > 0:
		first := s.Failures[0]
		c.Reason = v1alpha1.ReasonFailing
		c.Message = fmt.Sprintf("%d of %d nodes keep the settings that they had; node %s: %s", s.Failing, s.Nodes, first.Node, first.Message)
	case s.Applied < s.Nodes:
		c.Reason, c.Message = v1alpha1.ReasonPending, fmt.Sprintf("%d of %d nodes have not answered yet", s.Nodes-s.Applied, s.Nodes)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonApplied
	}
	if len(unknown) > 0 {
		c.Message = strings.TrimPrefix(c.Message+"; ", "; ") + "ranges name nodes that are not in the cluster: " + strings.Join(unknown, ", ")
	}
	return c
}

// unknownNodes returns the first nodes that ranges name and that have not joined.
func unknownNodes(in Input) (names []string) {
	for _, r := range in.Object.Spec.Ranges {
		if len(names) < maxNames && !slices.Contains(names, r.Node) && !in.Joined(r.Node) {
			names = append(names, r.Node)
		}
	}
	return names
}

func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
