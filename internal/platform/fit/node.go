// Package fit says whether a node can take a pod. It checks labels, taints, conditions and
// free addresses. The scheduler checks CPU and memory; Shortage only says whether there is
// room for a nomination.
package fit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
)

// Reasons why a node cannot take a pod.
const (
	NodeGone     = "NodeGone"           // the node does not exist
	NodeNotReady = "NodeNotReady"       // the node's kubelet is silent or not ready
	NodeCordoned = "NodeCordoned"       // the node takes no new pods
	NodeTainted  = "NodeTainted"        // the node has a taint that the pod does not tolerate
	NodeOutOfIPs = "NodeOutOfAddresses" // the node has no address left, and holds none for the pod
)

// Obstacle says why a node cannot take a pod, whatever room it has; "" when it can. A nil
// node is a node that does not exist.
func Obstacle(node *corev1.Node, pod *corev1.Pod) (reason, message string) {
	switch {
	case node == nil:
		return NodeGone, "does not exist"
	case !Ready(node):
		return NodeNotReady, "is not Ready"
	}
	switch taints := Untolerated(node, pod); {
	case len(taints) == 0:
		return "", ""
	case taints[0].Key == corev1.TaintNodeUnschedulable:
		return NodeCordoned, "is cordoned"
	default:
		return NodeTainted, fmt.Sprintf("has the taint %s that the pod does not tolerate", taints[0].ToString())
	}
}

// Untolerated returns the taints that keep a pod away from a node, a cordon first. A toleration with a numeric operator
// counts as not matching: such a pod returns only where the scheduler happens to send it.
func Untolerated(node *corev1.Node, pod *corev1.Pod) []corev1.Taint {
	var taints []corev1.Taint
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return slices.DeleteFunc(append(taints, node.Spec.Taints...), func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule ||
			scheduling.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, &t, false)
	})
}

// Dedicated reports whether an administrator's taint keeps the pod off the node for good, as
// that of a control plane does. Taints by which Kubernetes reports the state of a node do
// not count.
func Dedicated(node *corev1.Node, pod *corev1.Pod) bool {
	return slices.ContainsFunc(Untolerated(node, pod), func(t corev1.Taint) bool {
		prefix, _, _ := strings.Cut(t.Key, "/")
		return prefix != "node.kubernetes.io" && prefix != "node.cloudprovider.kubernetes.io"
	})
}

// Unreachable reports whether Kubernetes has found a node dead, so that the scheduler avoids it.
func Unreachable(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, Dead) }

// SayDead is the command that tells Kubernetes that a node is dead, and what follows.
func SayDead(node string) string {
	return fmt.Sprintf("kubectl taint node %s %s=:NoExecute, and Kubernetes removes its pods and detaches their volumes", node, corev1.TaintNodeOutOfService)
}

// Dead reports whether a taint tells of a node on which pods run no longer, or not reliably.
func Dead(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady
}

// Ready reports whether a node has the condition Ready.
func Ready(node *corev1.Node) bool { return readiness(node).Status == corev1.ConditionTrue }

// Silent reports whether Kubernetes does not know the state of a node, because its kubelet has
// stopped renewing its lease.
func Silent(node *corev1.Node) bool { return readiness(node).Status == corev1.ConditionUnknown }

// readiness returns the condition Ready of a node; an empty one where the node has none.
func readiness(node *corev1.Node) (ready corev1.NodeCondition) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c
		}
	}
	return ready
}

// PauseLimit is how long a node that says that it is not Ready is taken for one that is Ready again
// soon. A container runtime whose network plugin failed once asks again after 5 s, and the
// kubelet writes the status of its node every 10 s.
const PauseLimit = 20 * time.Second

// Pausing reports whether the kubelet of a node has lately said that the node is not Ready, or says that it is Ready again
// and Kubernetes has not removed the taint yet, and nothing else keeps a pod away from the node. A node that fell silent does
// not pause. The time of the condition is by the clock of now: the caches of the controller replace the kubelet's.
func Pausing(node *corev1.Node, pod *corev1.Pod, now time.Time) bool {
	taints, ready := Untolerated(node, pod), readiness(node)
	for _, t := range taints {
		if t.Key != corev1.TaintNodeNotReady {
			return false
		}
	}
	return ready.Status == corev1.ConditionTrue && len(taints) > 0 ||
		ready.Status == corev1.ConditionFalse && now.Sub(ready.LastTransitionTime.Time) < PauseLimit
}
