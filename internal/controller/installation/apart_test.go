package installation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/testenv"
)

func TestWhichReplicaLeavesItsNode(t *testing.T) {
	replica := func(name, node string, owner types.UID) corev1.Pod {
		pod := testenv.APod(name).On(node).Ready().Pod
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: owner, Controller: new(true)}}
		return *pod
	}
	unready := replica("a", "n1", "rs")
	unready.Status.Conditions = nil
	ending := replica("a", "n1", "rs")
	ending.DeletionTimestamp = &metav1.Time{}
	two := []*corev1.Node{testenv.ANode("n1").WithRoom(20, 8).Node, testenv.ANode("n2").WithRoom(20, 8).Node}
	cases := map[string]struct {
		leader string
		others []corev1.Pod
		nodes  []*corev1.Node
		want   string
	}{
		"beside the leader":                      {"a_1", []corev1.Pod{replica("a", "n1", "rs")}, two, "n2"},
		"the leader is elsewhere":                {"a_1", []corev1.Pod{replica("a", "n2", "rs")}, two, ""},
		"it leads itself":                        {"self_1", []corev1.Pod{replica("a", "n1", "rs")}, two, ""},
		"the leader is not known":                {"", []corev1.Pod{replica("a", "n1", "rs")}, two, ""},
		"the leader's pod is gone":               {"b_1", []corev1.Pod{replica("a", "n1", "rs")}, two, ""},
		"the leader is not Ready":                {"a_1", []corev1.Pod{unready}, two, ""},
		"the leader ends":                        {"a_1", []corev1.Pod{ending}, two, ""},
		"the leader is of another revision":      {"a_1", []corev1.Pod{replica("a", "n1", "other")}, two, ""},
		"a third replica is there":               {"a_1", []corev1.Pod{replica("a", "n1", "rs"), replica("c", "n2", "rs")}, two, ""},
		"there is one node":                      {"a_1", []corev1.Pod{replica("a", "n1", "rs")}, two[:1], ""},
		"the other node is not Ready":            {"a_1", []corev1.Pod{replica("a", "n1", "rs")}, []*corev1.Node{two[0], testenv.ANode("n2").WithRoom(20, 8).NotReady().Node}, ""},
		"the other node is cordoned":             {"a_1", []corev1.Pod{replica("a", "n1", "rs")}, []*corev1.Node{two[0], testenv.ANode("n2").WithRoom(20, 8).Cordoned().Node}, ""},
		"the other node is of the control plane": {"a_1", []corev1.Pod{replica("a", "n1", "rs")}, []*corev1.Node{two[0], testenv.ANode("n2").WithRoom(20, 8).Tainted("control-plane", corev1.TaintEffectNoSchedule).Node}, ""},
		"the other node is full":                 {"a_1", []corev1.Pod{replica("a", "n1", "rs")}, []*corev1.Node{two[0], testenv.ANode("n2").WithRoom(0, 8).Node}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			self := replica("self", "n1", "rs")
			in := apartInput{self: &self, leader: tc.leader, replicas: append([]corev1.Pod{self}, tc.others...), nodes: tc.nodes}
			if got := leave(in); got != tc.want {
				t.Errorf("leave() = %q, want %q", got, tc.want)
			}
		})
	}
}
