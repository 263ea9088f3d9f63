package pin_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const slip = "kubernetes.io/hostnam"

// recordedOn is the status of a state whose pod is Ready on a node.
func recordedOn(state testenv.PersistentPodState, pod testenv.Pod, nodes ...*corev1.Node) pin.Recording {
	in := pin.RecordInput{
		State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
		Nodes: map[string]*corev1.Node{}, Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now,
	}
	for _, node := range nodes {
		in.Nodes[node.Name] = node
	}
	return pin.Record(in)
}

// A label that the node of a pod lacks holds no pod there. The condition says so for as long as
// the label is missing.
func TestAMissingNodeLabelIsACondition(t *testing.T) {
	pod := testenv.APod("web-0").On("n1").Ready()
	bare, racked := testenv.ANode("n1"), testenv.ANode("n1").Labelled("example.com/rack", "r1")
	cases := map[string]struct {
		state testenv.PersistentPodState
		node  testenv.Node
		want  []string // parts of the message; none for no condition
	}{
		"all labels are there":         {testenv.APersistentPodState("web").Requires(hostname, "example.com/rack"), racked, nil},
		"a required key, misspelt":     {testenv.APersistentPodState("web").Requires(slip), bare, []string{"node n1 has no label " + slip, "requires nothing"}},
		"a preferred key":              {testenv.APersistentPodState("web").Prefers(1, "example.com/rack"), bare, []string{"no label example.com/rack, which", "prefers nothing"}},
		"one of two keys":              {testenv.APersistentPodState("web").Requires(hostname, "example.com/rack"), bare, []string{"no label example.com/rack"}},
		"the node is not one any more": {testenv.APersistentPodState("web").Requires(slip), testenv.ANode("n2"), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := recordedOn(tc.state, pod, tc.node.Node)
			c := meta.FindStatusCondition(got.Status.Conditions, appsv1beta1.ConditionTopologyUnknown)
			if (c != nil) != (tc.want != nil) {
				t.Fatalf("condition %+v, want one that says %q", c, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(c.Message, part) {
					t.Errorf("message %q lacks %q", c.Message, part)
				}
			}
			tc.state.Status = got.Status
			labelled := testenv.ANode("n1").Labelled(slip, "n1").Labelled("example.com/rack", "r1")
			again := recordedOn(tc.state, pod, labelled.Node)
			if c := meta.FindStatusCondition(again.Status.Conditions, appsv1beta1.ConditionTopologyUnknown); c != nil {
				t.Errorf("the node has the label now, and the condition stays: %q", c.Message)
			}
		})
	}
}

// A pod leaves a node that lacked the required label. The cause is the label, whatever became of
// the node, unless something else sent the pod away.
func TestAMoveThatAMissingLabelAllowed(t *testing.T) {
	before := appsv1beta1.PodState{UID: "first", NodeName: "n1", IPs: "10.0.1.5"}
	required, preferred := testenv.APersistentPodState("web").Requires(slip), testenv.APersistentPodState("web").Prefers(1, slip)
	moved := func() testenv.Pod {
		pod := testenv.APod("web-0").On("n2").Ready().At("10.0.2.7").With(appsv1beta1.AnnotationInjected, "web")
		pod.UID = "next"
		return pod
	}
	well, cordoned := testenv.ANode("n1"), testenv.ANode("n1").Cordoned()
	cases := map[string]struct {
		state testenv.PersistentPodState
		pod   testenv.Pod
		node  testenv.Node
		want  string
	}{
		"required, and the node is cordoned":    {required, moved(), cordoned, appsv1beta1.ReasonNodeLabelMissing},
		"required, and it was cordoned":         {required, moved().With(pin.AnnotationUnpinned, pin.ReasonNodeCordoned), well, appsv1beta1.ReasonNodeLabelMissing},
		"required, and the node is well":        {required, moved(), well, appsv1beta1.ReasonNodeLabelMissing},
		"required, and the pod asks for others": {required, moved().With(pin.AnnotationUnpinned, pin.ReasonPodElsewhere), well, pin.ReasonPodElsewhere},
		"preferred, and the node is cordoned":   {preferred, moved(), cordoned, pin.ReasonNodeCordoned},
		"preferred, and the node is well":       {preferred, moved(), well, appsv1beta1.ReasonNodeLabelMissing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := tc.state.DeepCopy()
			state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": before}
			got := recordedOn(testenv.PersistentPodState{PersistentPodState: state}, tc.pod, tc.node.Node, testenv.ANode("n2").Node).Rebuilds
			if len(got) != 1 || got[0].Outcome != appsv1beta1.Moved || got[0].Cause != tc.want {
				t.Errorf("judged %+v, want it moved because of %s", got, tc.want)
			}
		})
	}
}
