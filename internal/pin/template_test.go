package pin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
)

const pool = "example.com/pool"

// asking is a pod whose own required affinity has these alternatives.
func asking(terms ...corev1.NodeSelectorTerm) testenv.Pod {
	pod := testenv.APod("web-0")
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return pod
}

func matching(reqs ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: reqs}
}

// A pod's own template wins over its required place where no node meets both, whatever
// keys the template names.
func TestPlanMeetsTheTemplateAsAWhole(t *testing.T) {
	n1 := testenv.ANode("n1").Labelled(zone, "a").Labelled(pool, "old").Node
	n2 := testenv.ANode("n2").Labelled(zone, "a").Labelled(pool, "new").Node
	n3 := testenv.ANode("n3").Labelled(zone, "b").Labelled(pool, "new").Node
	selecting := func(value string) testenv.Pod {
		pod := testenv.APod("web-0")
		pod.Spec.NodeSelector = map[string]string{pool: value}
		return pod
	}
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n3")}}
	absent := corev1.NodeSelectorRequirement{Key: pool, Operator: corev1.NodeSelectorOpDoesNotExist}
	cases := map[string]struct {
		pod        testenv.Pod
		required   string // key; "" for a preference of the node
		nodes      []*corev1.Node
		wantReason string
		wantPlace  string
		wantNode   string
	}{
		"the node fits":                            {selecting("old"), hostname, []*corev1.Node{n1, n2}, pin.ReasonPinned, hostname + "=n1", "n1"},
		"a selector by another key":                {selecting("new"), hostname, []*corev1.Node{n1, n2}, pin.ReasonPodElsewhere, "", ""},
		"alternatives by another key":              {asking(matching(in(pool, "new")), matching(in(pool, "next"))), hostname, []*corev1.Node{n1, n2}, pin.ReasonPodElsewhere, "", ""},
		"alternatives of which one fits":           {asking(matching(in(pool, "new")), matching(in(pool, "old"))), hostname, []*corev1.Node{n1, n2}, pin.ReasonPinned, hostname + "=n1", "n1"},
		"alternatives that exclude it by two keys": {asking(matching(in(pool, "new"), in(zone, "a")), matching(in(pool, "old"), in(zone, "b"))), hostname, []*corev1.Node{n1, n3}, pin.ReasonPodElsewhere, "", ""},
		"another node by its name":                 {asking(named), hostname, []*corev1.Node{n1, n3}, pin.ReasonPodElsewhere, "", ""},
		"a label that the node must not have":      {asking(matching(absent)), hostname, []*corev1.Node{n1}, pin.ReasonPodElsewhere, "", ""},
		"another node of the zone fits":            {selecting("new"), zone, []*corev1.Node{n1, n2, n3}, pin.ReasonPodElsewhere, zone + "=a", ""},
		"no node of the zone fits":                 {selecting("new"), zone, []*corev1.Node{n1, n3}, pin.ReasonPodElsewhere, "", ""},
		"a node that is gone may have fitted":      {selecting("new"), hostname, []*corev1.Node{n2, n3}, pin.ReasonNodeGone, hostname + "=n1", ""},
		"so may one of a zone with others":         {selecting("next"), zone, []*corev1.Node{n2, n3}, pin.ReasonNodeGone, zone + "=a", ""},
		"a node that is preferred":                 {selecting("new"), "", []*corev1.Node{n1, n2}, pin.ReasonPodElsewhere, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Recorded("web-0", "n1", home)
			if tc.required == "" {
				state = state.Prefers(100, hostname)
			} else {
				state = state.Requires(tc.required)
			}
			input := pin.Input{Pod: tc.pod.Pod, State: state.PersistentPodState, Cluster: tc.nodes, Retains: true, Now: now}
			if tc.nodes[0] == n1 {
				input.Node = n1
			}
			got := pin.Plan(input)
			a := got.Patch.Annotations
			if got.Reason != tc.wantReason || a[podpatch.AnnotationPlace] != tc.wantPlace || a[pin.AnnotationNode] != tc.wantNode {
				t.Errorf("reason %s (%s), annotations %v; want %s, place %q, node %q", got.Reason, got.Message, a, tc.wantReason, tc.wantPlace, tc.wantNode)
			}
			if (tc.wantPlace == "") != (len(got.Patch.Required) == 0) {
				t.Errorf("required %v, though the place is %q", got.Patch.Required, tc.wantPlace)
			}
			if got.Reason == pin.ReasonPodElsewhere && len(got.Patch.Preferred) > 0 {
				t.Errorf("preferred %v, where the pod may not go", got.Patch.Preferred)
			}
		})
	}
}
