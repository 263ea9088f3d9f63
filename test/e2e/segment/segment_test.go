// Package segment_test has addresses follow their pods on an L2 segment that the nodes of a cluster share.
package segment_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// followers is a StatefulSet whose addresses follow its pods.
const followers = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 6
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
      annotations: {limpet.dev/retention: follow}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`

// lan is the network of a node, in one subnet with those of all others. The cluster routes the node's own part to it.
const lan = `{"name": "lan", "cniVersion": "1.0.0", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
 "capabilities": {"io.kubernetes.cri.pod-annotations": true},
 "ipam": {"type": "limpet-ipam", "sharedNetwork": true, "routes": [{"dst": "0.0.0.0/0"}],
  "ranges": [[{"subnet": "10.244.0.0/16", "rangeStart": "%[1]s.10", "rangeEnd": "%[1]s.250", "gateway": "%[1]s.1"}]]}}]}`

// wires connects the bridges of all nodes: a frame for an unknown machine goes to each other node.
const wires = `ip link add wire type vxlan id 9 dstport 4789 local %s dev eth0
ip link add cni0 type bridge
ip link set wire master cni0
ip link set wire up
ip link set cni0 up
for other in %s; do bridge fdb append 00:00:00:00:00:00 dev wire dst $other; done
`

// TestAddressesFollowOnASharedSegment drains each node in turn under pods whose addresses follow them. Each answers all others, who see its
// address, from wherever it is. In the end all are at home.
func TestAddressesFollowOnASharedSegment(t *testing.T) {
	b := up(t)
	duplicates := b.WatchDuplicates(t.Context())
	if _, err := b.KubectlIn(t.Context(), followers, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	before := ready(t, b)
	awaitShown(t, b, before)
	moved := 0
	for _, node := range b.Cluster.Nodes() {
		begin := time.Now()
		kubectl(t, b, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
		after := ready(t, b)
		took := time.Since(begin)
		same(t, before, after)
		for name, p := range after {
			if p.Spec.NodeName == node {
				t.Errorf("%s is on %s, which is drained", name, node)
			}
			if p.Spec.NodeName != before[name].Spec.NodeName {
				moved++
			}
		}
		allMeet(t, b, after)
		t.Logf("drain of %s: all pods are Ready after %.1f s, and have met after %.1f s", node, took.Seconds(), time.Since(begin).Seconds())
		kubectl(t, b, "uncordon", node)
	}
	if moved == 0 {
		t.Error("no pod left its node")
	}
	kubectl(t, b, "rollout", "restart", "statefulset/db")
	kubectl(t, b, "rollout", "status", "statefulset/db", "--timeout=120s")
	home := ready(t, b)
	same(t, before, home)
	for name, p := range home {
		if p.Spec.NodeName != before[name].Spec.NodeName {
			t.Errorf("%s is on %s, and its home is %s", name, p.Spec.NodeName, before[name].Spec.NodeName)
		}
	}
	allMeet(t, b, home)
	if found := duplicates.Stop(); len(found) > 0 {
		t.Errorf("two running pods had the same address: %v", found)
	}
}

// up starts a cluster whose nodes share a segment.
func up(t *testing.T) *bed.Bed {
	t.Helper()
	b, err := bed.UpWith(t.Context(), "segment", "../../..", t.Logf, func(ctx context.Context, b *bed.Bed) error {
		nodes, err := b.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		for _, n := range nodes.Items {
			if err := plug(ctx, b, n, nodes.Items); err != nil {
				return err
			}
		}
		return b.Install(ctx, filepath.Join(b.Repo, "deploy/shared-network"))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.DownAfter(t)
	return b
}

// plug connects a node to the segment.
func plug(ctx context.Context, b *bed.Bed, n corev1.Node, all []corev1.Node) error {
	var others []string
	for _, o := range all {
		if o.Name != n.Name {
			others = append(others, o.Status.Addresses[0].Address)
		}
	}
	part := strings.TrimSuffix(n.Spec.PodCIDR, ".0/24")
	script := fmt.Sprintf(wires, n.Status.Addresses[0].Address, strings.Join(others, " ")) +
		"mkdir -p /etc/cni/net.d\ncat >/etc/cni/net.d/10-lan.conflist <<'END'\n" + fmt.Sprintf(lan, part) + "\nEND\n"
	if said, err := b.Cluster.Exec(ctx, n.Name, "sh", "-ec", script); err != nil {
		return fmt.Errorf("connect %s: %w: %s", n.Name, err, said)
	}
	return nil
}

// ready returns all pods by name when all are Ready.
func ready(t *testing.T, b *bed.Bed) map[string]corev1.Pod {
	t.Helper()
	found := map[string]corev1.Pod{}
	await(t, "6 Ready pods", func(ctx context.Context) (bool, string) {
		list, err := b.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
		if err != nil {
			return false, err.Error()
		}
		clear(found)
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil {
				found[p.Name] = p
			}
		}
		return len(found) == 6, fmt.Sprintf("%d Ready", len(found))
	})
	return found
}

// awaitShown waits until the agents show that the address of each pod is kept for its owner.
func awaitShown(t *testing.T, b *bed.Bed, pods map[string]corev1.Pod) {
	t.Helper()
	await(t, "the addresses to be shown", func(ctx context.Context) (bool, string) {
		shown, err := b.Kubectl(ctx, "get", "ipreservations", "-o", `jsonpath={range .items[*]}{.status.pod}={.status.ips}{"\n"}{end}`)
		for name, p := range pods {
			if !strings.Contains(shown, name+"="+p.Status.PodIP+"\n") {
				return false, fmt.Sprint(shown, err)
			}
		}
		return err == nil, ""
	})
}

func same(t *testing.T, before, after map[string]corev1.Pod) {
	t.Helper()
	for name, p := range after {
		if p.Status.PodIP != before[name].Status.PodIP {
			t.Errorf("%s had %s, has %s on %s", name, before[name].Status.PodIP, p.Status.PodIP, p.Spec.NodeName)
		}
	}
}

// allMeet has each pod ask each other one, which sees its address.
func allMeet(t *testing.T, b *bed.Bed, pods map[string]corev1.Pod) {
	t.Helper()
	for _, from := range pods {
		for _, to := range pods {
			await(t, from.Name+" to reach "+to.Name, func(ctx context.Context) (bool, string) {
				said, err := b.Kubectl(ctx, "exec", from.Name, "--", "/echoserver", "get", "http://"+to.Status.PodIP+":8080/")
				met := strings.Contains(said, "name="+to.Name+" ") && strings.Contains(said, "remote="+from.Status.PodIP+":")
				return err == nil && met, fmt.Sprint(said, err)
			})
		}
	}
}

func kubectl(t *testing.T, b *bed.Bed, args ...string) {
	t.Helper()
	if _, err := b.Kubectl(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	if err := bed.Await(t.Context(), 2*time.Minute, what, ask); err != nil {
		t.Fatal(err)
	}
}
