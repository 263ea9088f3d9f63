package nodenetwork_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controller "github.com/limpet-io/limpet/internal/nodenetwork"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// told returns the pool of a node that tells how it took a generation.
func told(node, reason string, generation int64, message string) v1alpha1.NodeIPPool {
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonApplied || reason == v1alpha1.ReasonNodeNetworkDeleted {
		status = metav1.ConditionTrue
	}
	return v1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: node + ".limpet", Labels: map[string]string{v1alpha1.LabelNode: v1alpha1.NodeLabel(node)}},
		Status: v1alpha1.NodeIPPoolStatus{Node: node, Network: "limpet", Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionConfigured, Status: status, Reason: reason, ObservedGeneration: generation, Message: message, LastTransitionTime: metav1.Now()},
		}},
	}
}

func TestSummarize(t *testing.T) {
	for name, tc := range map[string]struct {
		pools                  []v1alpha1.NodeIPPool
		ranges                 []string // nodes that have ranges
		nodes, applied, failed int32
		status                 metav1.ConditionStatus
		reason, words          string
	}{
		"no agent reports":                     {status: metav1.ConditionUnknown, reason: v1alpha1.ReasonNoNodes, words: "--network=own"},
		"all nodes have them":                  {pools: []v1alpha1.NodeIPPool{told("n1", "Applied", 3, ""), told("n2", "Applied", 3, "")}, nodes: 2, applied: 2, status: metav1.ConditionTrue, reason: v1alpha1.ReasonApplied},
		"a node has earlier ones":              {pools: []v1alpha1.NodeIPPool{told("n1", "Applied", 3, ""), told("n2", "Applied", 2, "")}, nodes: 2, applied: 1, status: metav1.ConditionFalse, reason: v1alpha1.ReasonPending, words: "1 of 2 nodes"},
		"a former failure counts as no answer": {pools: []v1alpha1.NodeIPPool{told("n1", "MTUTooLarge", 2, "m")}, nodes: 1, status: metav1.ConditionFalse, reason: v1alpha1.ReasonPending},
		"a node has those of a deleted object": {pools: []v1alpha1.NodeIPPool{told("n1", "Applied", 3, ""), told("n2", v1alpha1.ReasonNodeNetworkDeleted, 3, "")}, nodes: 2, applied: 1, status: metav1.ConditionFalse, reason: v1alpha1.ReasonPending, words: "1 of 2 nodes"},
		"a node cannot have them":              {pools: []v1alpha1.NodeIPPool{told("n1", "Applied", 3, ""), told("n2", "MTUTooLarge", 3, "the MTU is too large")}, nodes: 2, applied: 1, failed: 1, status: metav1.ConditionFalse, reason: v1alpha1.ReasonFailing, words: "node n2: the MTU is too large"},
		"a range of an unknown node":           {pools: []v1alpha1.NodeIPPool{told("n1", "Applied", 3, "")}, ranges: []string{"n1", "nn1"}, nodes: 1, applied: 1, status: metav1.ConditionTrue, reason: v1alpha1.ReasonApplied, words: "ranges name nodes that are not in the cluster: nn1"},
		"two pools of one node":                {pools: []v1alpha1.NodeIPPool{told("n1", "Applied", 3, ""), told("n1", "Applied", 3, "")}, nodes: 1, applied: 1, status: metav1.ConditionTrue, reason: v1alpha1.ReasonApplied},
	} {
		t.Run(name, func(t *testing.T) {
			in := controller.Input{Pools: tc.pools, Joined: func(n string) bool { return n == "n1" || n == "n2" }, Now: metav1.Now()}
			in.Object.Generation = 3
			for i, node := range tc.ranges {
				in.Object.Spec.Ranges = append(in.Object.Spec.Ranges, v1alpha1.NodeRange{Node: node, CIDR: fmt.Sprintf("10.200.%d.0/24", i)})
			}
			s := controller.Summarize(in)
			if s.Nodes != tc.nodes || s.Applied != tc.applied || s.Failing != tc.failed || s.ObservedGeneration != 3 {
				t.Errorf("numbers %+v", s)
			}
			c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionApplied)
			if c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.words) || c.ObservedGeneration != 3 {
				t.Errorf("condition %+v", c)
			}
		})
	}
}

// TestTheSummaryIsBounded summarizes five thousand nodes that fail with long texts.
func TestTheSummaryIsBounded(t *testing.T) {
	in := controller.Input{Joined: func(string) bool { return false }, Now: metav1.Now()}
	for i := range 5000 {
		node := fmt.Sprintf("n%04d", i)
		in.Pools = append(in.Pools, told(node, "Refused", 0, strings.Repeat("é", 5000)))
		in.Object.Spec.Ranges = append(in.Object.Spec.Ranges, v1alpha1.NodeRange{Node: node})
	}
	slices.Reverse(in.Pools)
	s := controller.Summarize(in)
	if s.Failing != 5000 || len(s.Failures) != 10 || s.Failures[0].Node != "n0000" || len(s.Failures[9].Message) > 512 {
		t.Errorf("%d failing, %d named", s.Failing, len(s.Failures))
	}
	if c := s.Conditions[0]; len(c.Message) > 2000 {
		t.Errorf("message of %d bytes", len(c.Message))
	}
}
