package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// following is a StatefulSet whose addresses follow its pods.
func following(name string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  podManagementPolicy: Parallel
  serviceName: %[1]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {limpet.dev/retention: follow}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`, name, replicas)
}

// TestAnAddressFollowsItsPod drains each node in turn. Each pod keeps its address, on whatever node, and answers from the
// others. In the end all come home.
func TestAnAddressFollowsItsPod(t *testing.T) {
	apply(t, following("follower", 6))
	before := pods(t, "follower", 6)
	awaitAllShown(t, before)
	nodes := map[string]bool{}
	for _, p := range before {
		nodes[p.Spec.NodeName] = true
	}
	for node := range nodes {
		begin := time.Now()
		kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
		t.Cleanup(func() { uncordon(t, node) })
		after := pods(t, "follower", 6)
		t.Logf("drain of %s: all pods are Ready after %s", node, time.Since(begin).Round(100*time.Millisecond))
		sameAddresses(t, before, after)
		for name, p := range after {
			if p.Spec.NodeName == node {
				t.Errorf("%s is on %s, which is drained", name, node)
			}
			answers(t, p)
		}
		kubectl(t, "uncordon", node)
	}
	kubectl(t, "rollout", "restart", "statefulset", "follower")
	kubectl(t, "rollout", "status", "statefulset", "follower")
	home := pods(t, "follower", 6)
	sameAddresses(t, before, home)
	for name, p := range home {
		if p.Spec.NodeName != before[name].Spec.NodeName {
			t.Errorf("%s is on %s, and its home is %s", name, p.Spec.NodeName, before[name].Spec.NodeName)
		}
	}
	await(t, time.Minute, "all loans to end", func(ctx context.Context) (bool, string) {
		left, err := theBed.Kubectl(ctx, "get", "borrowedaddresses", "-o", "name")
		return left == "" && err == nil, fmt.Sprint(left, err)
	})
}

// awaitAllShown waits until the agents show the addresses of all pods.
func awaitAllShown(t *testing.T, all map[string]corev1.Pod) {
	t.Helper()
	for name, pod := range all {
		awaitShown(t, name, pod)
	}
}

func sameAddresses(t *testing.T, before, after map[string]corev1.Pod) {
	t.Helper()
	for name, p := range after {
		if p.Status.PodIP != before[name].Status.PodIP {
			t.Errorf("%s had %s on %s, and has %s on %s", name, before[name].Status.PodIP, before[name].Spec.NodeName, p.Status.PodIP, p.Spec.NodeName)
		}
	}
}
