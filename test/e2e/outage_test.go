package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stage is a row of the same table, which a node that is off reaches by itself or by an administrator.
type stage struct {
	name string
	spec string // as in failure
	// cause waits until the node is in the stage and has the pod be rebuilt.
	cause func(t *testing.T, home corev1.Pod)
}

// stages returns the stages in their order. Kubernetes takes most of a minute to find a node dead, so that
// all stages share one outage.
func stages() []stage {
	return []stage{
		{ // the node condition is still Ready
			name: "silent",
			cause: func(t *testing.T, home corev1.Pod) {
				leaseOverdue(t, home.Spec.NodeName)
				kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
			},
		},
		{
			name: "not ready",
			spec: "      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]\n",
			cause: func(t *testing.T, home corev1.Pod) {
				terminating(t, home)
				kubectl(t, "delete", "pod", home.Name, "--force", "--grace-period=0")
			},
		},
		{
			name: "out of service",
			cause: func(t *testing.T, home corev1.Pod) {
				kubectl(t, "taint", "node", home.Spec.NodeName, outOfService+"=nodeshutdown:NoExecute")
			},
		},
	}
}

const outOfService = "node.kubernetes.io/out-of-service"

// outage powers a node off, checks one pod of the node in each stage, and powers the node on. It returns
// the pods.
func outage(t *testing.T) []affected {
	t.Helper()
	node := theBed.Cluster.Nodes()[1]
	homes := onNode(t, node)
	off := true
	t.Cleanup(func() {
		if !off {
			return
		}
		powerOn(t, node)
		if _, err := theBed.Kubectl(context.WithoutCancel(t.Context()), "taint", "node", node, outOfService+"-"); err != nil {
			t.Log(err) // the test failed before the taint was there
		}
	})
	failedAt := time.Now()
	powerOff(t, node)
	var all []affected
	away := make([]map[string]corev1.Pod, len(homes))
	for i, s := range stages() {
		home := homes[i]
		all = append(all, affected{home: home, failedAt: failedAt})
		if !t.Run(s.name, func(t *testing.T) {
			s.cause(t, home)
			startsElsewhere(t, home)
			away[i] = pods(t, home.Labels["app"], 1)
		}) {
			t.FailNow()
		}
	}
	off = false
	powerOn(t, node)
	kubectl(t, "taint", "node", node, outOfService+"-")
	if err := errors.Join(theBed.Cluster.WaitReady(t.Context(), 3*time.Minute), theBed.AwaitLimpet(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, home := range homes {
		kubectl(t, "delete", "pod", home.Name)
	}
	for i, home := range homes {
		kept(t, away[i], pods(t, home.Labels["app"], 1))
	}
	return all
}

// onNode starts one pod for each stage on a node, and returns the pods.
func onNode(t *testing.T, node string) []corev1.Pod {
	t.Helper()
	var others []string
	for _, n := range theBed.Cluster.Nodes() {
		if n != node {
			others = append(others, n)
		}
	}
	t.Cleanup(func() { kubectl(t, append([]string{"uncordon"}, others...)...) })
	kubectl(t, append([]string{"cordon"}, others...)...)
	var homes []corev1.Pod
	for _, s := range stages() {
		name := strings.ReplaceAll(s.name, " ", "-")
		apply(t, strings.Replace(set(name, 1, retain, "10"), "    spec:\n", "    spec:\n"+s.spec, 1))
	}
	for _, s := range stages() {
		name := strings.ReplaceAll(s.name, " ", "-")
		home := pods(t, name, 1)[name+"-0"]
		if home.Spec.NodeName != node {
			t.Fatalf("%s is on %s, want %s", home.Name, home.Spec.NodeName, node)
		}
		attached(t, home)
		homes = append(homes, home)
	}
	kubectl(t, append([]string{"uncordon"}, others...)...)
	return homes
}
