package flannel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// outOfService is the taint by which a person says that a node is off.
const outOfService = "node.kubernetes.io/out-of-service"

// follower is a StatefulSet whose addresses follow its pods.
const follower = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: follow-%[1]s}
spec:
  serviceName: follow-%[1]s
  replicas: 4
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: follow-%[1]s}}
  template:
    metadata:
      labels: {app: follow-%[1]s}
      annotations: {limpet.dev/retention: follow}
    spec:
      nodeSelector: {network: %[1]s}
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`

// follow drains each node in turn under pods whose addresses follow them. Each keeps its address on the other node, and answers
// there: to the pods and to the host of both nodes, who see each other's addresses. Then all go home.
func (n *network) follow(t *testing.T) {
	before := n.followers(t)
	for _, from := range n.nodes {
		begin := time.Now()
		kubectl(t, n.bed, "drain", from, "--ignore-daemonsets", "--pod-selector=app=follow-"+n.backend, "--timeout=60s")
		n.keepAddresses(t, from, begin, before, n.podsOf(t, n.backend, 8))
		kubectl(t, n.bed, "uncordon", from)
		n.goHome(t, before)
	}
	kubectl(t, n.bed, "delete", "statefulset", "follow-"+n.backend, "--timeout=60s")
}

// survive powers a node off, until a person says that it is dead. The addresses of its pods go along, though agents and controllers
// are killed meanwhile. The node returns, and so do the pods.
func (n *network) survive(t *testing.T) {
	n.patch(t)
	before, dead := n.followers(t), n.nodes[1]
	if err := n.bed.Cluster.PowerOff(dead); err != nil {
		t.Fatal(err)
	}
	await(t, dead+" to be NotReady", func(ctx context.Context) (bool, string) {
		said, err := n.bed.Kubectl(ctx, "get", "node", dead, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return said == "Unknown", fmt.Sprint(said, err)
	})
	begin := time.Now()
	kubectl(t, n.bed, "taint", "nodes", dead, outOfService+"=nodeshutdown:NoExecute")
	kubectl(t, n.bed, "delete", "pod", "-n", "limpet-system", "-l", "app.kubernetes.io/name in (limpet-agent,limpet-controller)", "--field-selector=spec.nodeName="+n.nodes[0], "--wait=false")
	n.keepAddresses(t, dead, begin, before, before)
	if err := n.bed.Cluster.PowerOn(dead); err != nil {
		t.Fatal(err)
	}
	kubectl(t, n.bed, "wait", "--for=condition=Ready", "node/"+dead, "--timeout=120s")
	kubectl(t, n.bed, "taint", "nodes", dead, outOfService+"-")
	n.goHome(t, before)
}

// followers makes pods whose addresses follow them, and returns them by name.
func (n *network) followers(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	if _, err := n.bed.KubectlIn(t.Context(), fmt.Sprintf(follower, n.backend), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	pods := n.podsOf(t, "follow-"+n.backend, 4)
	n.awaitShown(t, pods)
	return pods
}

// keepAddresses waits until no follower is on a node, and fails unless each has the address of before, and answers.
func (n *network) keepAddresses(t *testing.T, left string, begin time.Time, before, askers map[string]corev1.Pod) {
	t.Helper()
	after := n.podsOf(t, "follow-"+n.backend, 4)
	ready, moved := time.Since(begin), 0
	for name, p := range after {
		if p.Status.PodIP != before[name].Status.PodIP || p.Spec.NodeName == left {
			t.Errorf("%s had %s, has %s on %s", name, before[name].Status.PodIP, p.Status.PodIP, p.Spec.NodeName)
		}
		if before[name].Spec.NodeName == p.Spec.NodeName {
			continue
		}
		moved++
		for name, asker := range askers {
			if now, follows := after[name]; follows {
				asker = now
			}
			n.sees(t, asker, p)
			n.sees(t, p, asker)
		}
		for _, node := range n.nodes {
			if node != left || n.on(t, left) {
				n.hostAsks(t, node, p.Status.PodIP)
			}
		}
	}
	t.Logf("%s, without %s: %d of 4 pods moved and were Ready after %.1f s; after %.1f s %d pods and the hosts had asked each",
		n.backend, left, moved, ready.Seconds(), time.Since(begin).Seconds(), len(askers))
	if moved == 0 {
		t.Errorf("no pod was on %s", left)
	}
}

// on reports whether a node is Ready.
func (n *network) on(t *testing.T, node string) bool {
	t.Helper()
	return kubectl(t, n.bed, "get", "node", node, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`) == "True"
}

// goHome rolls the followers out again, and fails unless all are where they were before, with their addresses.
func (n *network) goHome(t *testing.T, before map[string]corev1.Pod) {
	t.Helper()
	kubectl(t, n.bed, "rollout", "restart", "statefulset/follow-"+n.backend)
	kubectl(t, n.bed, "rollout", "status", "statefulset/follow-"+n.backend, "--timeout=120s")
	for name, p := range n.podsOf(t, "follow-"+n.backend, 4) {
		if p.Status.PodIP != before[name].Status.PodIP || p.Spec.NodeName != before[name].Spec.NodeName {
			t.Errorf("%s had %s on %s, has %s on %s", name, before[name].Status.PodIP, before[name].Spec.NodeName, p.Status.PodIP, p.Spec.NodeName)
		}
		n.hostAsks(t, p.Spec.NodeName, p.Status.PodIP)
	}
}

// awaitShown waits until the agents show the addresses of all pods, without an end.
func (n *network) awaitShown(t *testing.T, pods map[string]corev1.Pod) {
	t.Helper()
	await(t, "the addresses to be shown", func(ctx context.Context) (bool, string) {
		shown, err := n.bed.Kubectl(ctx, "get", "ipreservations", "-o", `jsonpath={range .items[*]}{.status.pod}={.status.ips}={.status.retainMinutes}{"\n"}{end}`)
		for name, p := range pods {
			at := strings.Index(shown, name+"="+p.Status.PodIP+"=")
			if at < 0 || len(strings.SplitN(shown[at:], "\n", 2)[0]) < len(name+p.Status.PodIP)+6 { // a duration of years
				return false, fmt.Sprint(shown, err)
			}
		}
		return err == nil, ""
	})
}

// sees fails unless a pod answers another one, and sees its address.
func (n *network) sees(t *testing.T, from, to corev1.Pod) {
	t.Helper()
	await(t, from.Name+" to reach "+to.Name, func(ctx context.Context) (bool, string) {
		said, err := n.bed.Kubectl(ctx, "exec", from.Name, "--", "/echoserver", "get", "http://"+to.Status.PodIP+":8080/")
		if err == nil && !strings.Contains(said, "remote="+from.Status.PodIP+":") {
			t.Errorf("%s on %s asked %s on %s, who saw: %s", from.Name, from.Spec.NodeName, to.Name, to.Spec.NodeName, said)
		}
		return err == nil && strings.Contains(said, "name="+to.Name+" "), fmt.Sprint(said, err)
	})
}

// hostAsks fails unless an address answers a node.
func (n *network) hostAsks(t *testing.T, node, ip string) {
	t.Helper()
	await(t, node+" to reach "+ip, func(ctx context.Context) (bool, string) {
		said, err := n.bed.Cluster.Exec(ctx, node, "sh", "-c", "$(ls -d /run/containerd/io.containerd.runtime.v2.task/k8s.io/*/rootfs/echoserver | head -1) get http://"+ip+":8080")
		return err == nil, fmt.Sprint(string(said), err)
	})
}

// podsOf returns the pods of a StatefulSet by name when so many are Ready.
func (n *network) podsOf(t *testing.T, app string, want int) map[string]corev1.Pod {
	t.Helper()
	found := map[string]corev1.Pod{}
	await(t, fmt.Sprintf("%d Ready pods of %s", want, app), func(ctx context.Context) (bool, string) {
		list, err := n.bed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false, err.Error()
		}
		clear(found)
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil {
				found[p.Name] = p
			}
		}
		return len(found) == want, fmt.Sprintf("%d Ready", len(found))
	})
	return found
}
