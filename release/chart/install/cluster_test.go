package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// set is a StatefulSet whose pod keeps its address and its node.
const set = `apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: web
  annotations:
    kruise.io/auto-generate-persistent-pod-state: "true"
    kruise.io/preferred-persistent-topology: kubernetes.io/hostname
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {io.kubernetes.cri/reserved-ip-duration: "30"}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`

// cluster is the cluster of a test, with what the test asks of it.
type cluster struct {
	t   *testing.T
	bed *bed.Bed
}

func (c cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.kubectlIn("", args...)
}

func (c cluster) kubectlIn(stdin string, args ...string) string {
	c.t.Helper()
	out, err := c.bed.KubectlIn(c.t.Context(), stdin, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// says fails unless kubectl prints what is wanted.
func (c cluster) says(want string, args ...string) {
	c.t.Helper()
	if out := strings.TrimSpace(c.kubectl(args...)); out != want {
		c.t.Errorf("kubectl %s prints %q, want %q", strings.Join(args, " "), out, want)
	}
}

func (c cluster) await(what string, ask func(context.Context) (bool, string)) {
	c.t.Helper()
	if err := bed.Await(c.t.Context(), 2*time.Minute, what, ask); err != nil {
		c.t.Fatal(err)
	}
}

// ready waits for a Ready pod of a name that is not the former one.
func (c cluster) ready(pod string, former types.UID) corev1.Pod {
	c.t.Helper()
	var found corev1.Pod
	c.await(pod+" to be Ready", func(ctx context.Context) (bool, string) {
		p, err := c.bed.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		found = *p
		return p.UID != former && p.DeletionTimestamp == nil && bed.Ready(p), fmt.Sprintf("phase %s on node %q", p.Status.Phase, p.Spec.NodeName)
	})
	return found
}

// returns deletes a pod of the StatefulSet web and checks that it comes home.
func (c cluster) returns(before corev1.Pod) corev1.Pod {
	c.t.Helper()
	if err := c.bed.AwaitRecorded(c.t.Context(), namespace, "web", before.Name, before.Spec.NodeName); err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("delete", "pod", before.Name, "--timeout=60s")
	after := c.ready(before.Name, before.UID)
	c.same(before, after)
	return after
}

// same checks node and addresses of a rebuilt pod.
func (c cluster) same(before, after corev1.Pod) {
	c.t.Helper()
	if before.Spec.NodeName != after.Spec.NodeName || fmt.Sprint(before.Status.PodIPs) != fmt.Sprint(after.Status.PodIPs) {
		c.t.Errorf("%s was on %s with %v, is on %s with %v",
			before.Name, before.Spec.NodeName, before.Status.PodIPs, after.Spec.NodeName, after.Status.PodIPs)
	}
}
