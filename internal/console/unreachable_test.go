package console_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestAPodOfADeadNodeNamesTheTaint explains pods that wait for a node which does not answer.
func TestAPodOfADeadNodeNamesTheTaint(t *testing.T) {
	f := installed()
	f.Nodes = []corev1.Node{*testenv.ANode("n1").NotReady().Node, *testenv.ANode("n2").Node}
	ending := metav1.NewTime(f.Now)
	for name, tc := range map[string]struct {
		node  string
		phase corev1.PodPhase
		ends  *metav1.Time
		names bool
	}{
		"it does not start":         {"n1", corev1.PodPending, nil, true},
		"it does not end":           {"n1", corev1.PodRunning, &ending, true},
		"it runs":                   {"n1", corev1.PodRunning, nil, false},
		"it ends on a node":         {"n2", corev1.PodRunning, &ending, false},
		"it starts on a node":       {"n2", corev1.PodPending, nil, false},
		"its node is gone for good": {"n9", corev1.PodRunning, &ending, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").In("shop").On(tc.node).Pod
			pod.Status.Phase, pod.DeletionTimestamp = tc.phase, tc.ends
			e := console.Pending(f, pod)
			const command = "if it is dead, kubectl taint node n1 node.kubernetes.io/out-of-service=:NoExecute, and Kubernetes removes its pods"
			if strings.Contains(e.Remedy, command) != tc.names {
				t.Errorf("%+v, want the taint named: %t", e, tc.names)
			}
		})
	}
}
