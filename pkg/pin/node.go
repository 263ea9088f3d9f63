package pin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// unfit says why a node cannot take a pod now, whatever room it has; "" when it can.
// A nil node is one that does not exist.
func unfit(node *corev1.Node, pod *corev1.Pod) (reason, message string) {
	switch {
	case node == nil:
		return ReasonNodeGone, "does not exist"
	case !ready(node.Status.Conditions):
		return ReasonNodeNotReady, "is not Ready"
	}
	switch taints := untolerated(node, pod); {
	case len(taints) == 0:
		return "", ""
	case taints[0].Key == corev1.TaintNodeUnschedulable:
		return ReasonNodeCordoned, "is cordoned"
	default:
		return ReasonNodeTainted, fmt.Sprintf("has the taint %s that the pod does not tolerate", taints[0].ToString())
	}
}

// untolerated are the taints that keep a pod away, a cordon first.
func untolerated(node *corev1.Node, pod *corev1.Pod) []corev1.Taint {
	var taints []corev1.Taint
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return slices.DeleteFunc(append(taints, node.Spec.Taints...), func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule || tolerated(t, pod.Spec.Tolerations)
	})
}

// forOthers tells whether a node is for other pods by a taint that somebody gave it for
// good, as a node of the control plane has one. Those by which Kubernetes itself says how
// a node is pass.
func forOthers(node *corev1.Node, pod *corev1.Pod) bool {
	return slices.ContainsFunc(untolerated(node, pod), func(t corev1.Taint) bool {
		prefix, _, _ := strings.Cut(t.Key, "/")
		return prefix != "node.kubernetes.io" && prefix != "node.cloudprovider.kubernetes.io"
	})
}

// narrowed are the nodes of which something holds, or all where it holds of none.
func narrowed(nodes []*corev1.Node, holds func(*corev1.Node) bool) []*corev1.Node {
	some := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !holds(n) })
	if len(some) == 0 {
		return nodes
	}
	return some
}

func ready(conditions []corev1.NodeCondition) bool {
	for _, c := range conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// tolerated holds as in the scheduler, apart from the numeric operators, which it takes
// for not matching: the pod then goes home only if the scheduler happens to choose so.
func tolerated(taint corev1.Taint, tolerations []corev1.Toleration) bool {
	for _, t := range tolerations {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case corev1.TolerationOpEqual, "":
			if t.Key != "" && t.Value == taint.Value {
				return true
			}
		default:
		}
	}
	return false
}
