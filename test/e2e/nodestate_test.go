package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keepsRunning checks that a pod runs on, with its addresses.
func keepsRunning(t *testing.T, pod corev1.Pod) {
	t.Helper()
	if now := pods(t, pod.Labels["app"], 1)[pod.Name]; now.UID != pod.UID {
		t.Errorf("%s was %s, is %s", pod.Name, pod.UID, now.UID)
	}
	attached(t, pod)
}

// terminating waits until a pod is in deletion while its object still exists.
func terminating(t *testing.T, pod corev1.Pod) {
	t.Helper()
	await(t, 2*time.Minute, "the pod to be in deletion", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.UID == pod.UID && p.DeletionTimestamp != nil, fmt.Sprintf("%s, deletion %v", p.UID, p.DeletionTimestamp)
	})
}

// leaseOverdue waits until the lease of a node was not renewed in time.
func leaseOverdue(t *testing.T, node string) {
	t.Helper()
	await(t, time.Minute, "the node's lease to be overdue", func(ctx context.Context) (bool, string) {
		lease, err := theBed.Client.CoordinationV1().Leases("kube-node-lease").Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return time.Since(lease.Spec.RenewTime.Time) > 16*time.Second, lease.Spec.RenewTime.String()
	})
}

// joinAgain starts a node whose Node object was deleted. The node has other pod CIDRs then,
// and pods that start before the agent knows them get addresses without a route.
func joinAgain(t *testing.T, node string) {
	t.Helper()
	powerOn(t, node)
	ctx := context.WithoutCancel(t.Context()) // the context of a failed test has ended
	if err := errors.Join(theBed.Cluster.WaitReady(ctx, 3*time.Minute), theBed.AwaitLimpet(ctx)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "pod", "-l", "app=probe", "--field-selector", "spec.nodeName="+node)
	kubectl(t, "rollout", "status", "daemonset/probe", "--timeout=120s")
}

// mostOfANode returns a CPU request that fits on a node once and not twice.
func mostOfANode(t *testing.T) string {
	t.Helper()
	node, err := theBed.Client.CoreV1().Nodes().Get(t.Context(), theBed.Cluster.Nodes()[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%dm", node.Status.Allocatable.Cpu().MilliValue()*6/10)
}

func uncordon(t *testing.T, node string) {
	t.Helper()
	kubectl(t, "uncordon", node)
}

func powerOff(t *testing.T, node string) {
	t.Helper()
	if err := theBed.Cluster.PowerOff(node); err != nil {
		t.Fatal(err)
	}
}

func powerOn(t *testing.T, node string) {
	t.Helper()
	if err := theBed.Cluster.PowerOn(node); err != nil {
		t.Error(err)
	}
}
