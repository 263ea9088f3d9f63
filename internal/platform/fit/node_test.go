package fit_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/fit"
)

// aNode is a Ready node with some taints.
func aNode(taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{}
	n.Spec.Taints = taints
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// aPod is a pod with some tolerations.
func aPod(tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tolerations}}
}

// TestObstacle says why a node cannot take a pod.
func TestObstacle(t *testing.T) {
	silent, unknown, cordoned := aNode(), aNode(), aNode(taint("gpu", "yes", corev1.TaintEffectNoSchedule))
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	unknown.Status.Conditions = nil
	cordoned.Spec.Unschedulable = true
	gpu := aNode(taint("gpu", "yes", corev1.TaintEffectNoSchedule))
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want string
	}{
		"none":                         {aNode(), aPod(), ""},
		"a node that does not exist":   {nil, aPod(), fit.NodeGone},
		"a silent node":                {silent, aPod(everything), fit.NodeNotReady},
		"a node without a condition":   {unknown, aPod(), fit.NodeNotReady},
		"a cordon before other taints": {cordoned, aPod(), fit.NodeCordoned},
		"a cordon that is tolerated":   {cordoned, aPod(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}), fit.NodeTainted},
		"a taint":                      {gpu, aPod(), fit.NodeTainted},
		"a taint with another value":   {gpu, aPod(corev1.Toleration{Key: "gpu", Value: "no"}), fit.NodeTainted},
		"a taint above a number":       {aNode(taint("gpu", "5", corev1.TaintEffectNoSchedule)), aPod(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpGt, Value: "4"}), fit.NodeTainted},
		"a taint with another effect":  {gpu, aPod(corev1.Toleration{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoExecute}), fit.NodeTainted},
		"a taint that is tolerated":    {gpu, aPod(corev1.Toleration{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}), ""},
		"all taints are tolerated":     {gpu, aPod(everything), ""},
		"a taint that only prefers":    {aNode(taint("gpu", "", corev1.TaintEffectPreferNoSchedule)), aPod(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if reason, message := fit.Obstacle(tc.node, tc.pod); reason != tc.want || (message == "") != (tc.want == "") {
				t.Errorf("got %q, %q, want %q", reason, message, tc.want)
			}
		})
	}
}

// TestPausing tells a node that is not Ready for a moment from one that cannot take a pod.
func TestPausing(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	says := func(status corev1.ConditionStatus, ago time.Duration, taints ...corev1.Taint) *corev1.Node {
		node := aNode(taints...)
		node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(now.Add(-ago))
		return node
	}
	notReady := taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoSchedule)
	cordoned := says(corev1.ConditionFalse, time.Second, notReady)
	cordoned.Spec.Unschedulable = true
	for name, tc := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"it has just said so":              {says(corev1.ConditionFalse, time.Second, notReady), true},
		"before Kubernetes sets the taint": {says(corev1.ConditionFalse, time.Second), true},
		"it said so long ago":              {says(corev1.ConditionFalse, fit.PauseLimit, notReady), false},
		"it is Ready":                      {says(corev1.ConditionTrue, time.Second), false},
		"it is Ready again, with a taint":  {says(corev1.ConditionTrue, time.Second, notReady), true},
		"it is Ready, with another taint":  {says(corev1.ConditionTrue, time.Second, taint("gpu", "", corev1.TaintEffectNoSchedule)), false},
		"it is silent":                     {says(corev1.ConditionUnknown, time.Second), false},
		"it is cordoned too":               {cordoned, false},
		"it has another taint too":         {says(corev1.ConditionFalse, time.Second, notReady, taint("gpu", "", corev1.TaintEffectNoSchedule)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fit.Pausing(tc.node, aPod(), now); got != tc.want {
				t.Errorf("pausing: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestDedicated tells taints of an administrator from those of Kubernetes.
func TestDedicated(t *testing.T) {
	for key, want := range map[string]bool{
		"node-role.kubernetes.io/control-plane": true,
		"gpu":                                   true,
		corev1.TaintNodeNotReady:                false,
		corev1.TaintNodeUnreachable:             false,
		"node.cloudprovider.kubernetes.io/uninitialized": false,
	} {
		node := aNode(taint(key, "", corev1.TaintEffectNoSchedule))
		if got := fit.Dedicated(node, aPod()); got != want {
			t.Errorf("%s: got %v", key, got)
		}
		if fit.Dedicated(node, aPod(corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})) {
			t.Errorf("%s is tolerated, and keeps the pod off", key)
		}
	}
	cordoned := aNode()
	cordoned.Spec.Unschedulable = true
	if fit.Dedicated(cordoned, aPod()) {
		t.Error("a cordon keeps pods off for good")
	}
}

// TestUnreachable is about the taints of nodes that Kubernetes has found dead.
func TestUnreachable(t *testing.T) {
	for key, want := range map[string]bool{
		corev1.TaintNodeUnreachable: true, corev1.TaintNodeNotReady: true, corev1.TaintNodeMemoryPressure: false,
	} {
		if got := fit.Unreachable(aNode(taint(key, "", corev1.TaintEffectNoExecute))); got != want {
			t.Errorf("%s: got %v", key, got)
		}
	}
}
