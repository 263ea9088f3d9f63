package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestAnAddressSurvivesItsDeadNode powers the home of a pod off for good, until a person says so. The address goes along,
// stays away from all others while home returns, and comes home with the pod.
func TestAnAddressSurvivesItsDeadNode(t *testing.T) {
	long(t)
	apply(t, following("survivor", 3))
	before := pods(t, "survivor", 3)
	awaitAllShown(t, before)
	node := before["survivor-0"].Spec.NodeName
	powerOff(t, node)
	on := false
	t.Cleanup(func() {
		if !on {
			powerOn(t, node)
			kubectl(t, "taint", "nodes", node, outOfService+"-")
		}
	})
	await(t, 3*time.Minute, node+" to be NotReady", func(ctx context.Context) (bool, string) {
		said, err := theBed.Kubectl(ctx, "get", "node", node, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return said == "Unknown", fmt.Sprint(said, err)
	})
	begin := time.Now()
	kubectl(t, "taint", "nodes", node, outOfService+"=nodeshutdown:NoExecute")
	after := pods(t, "survivor", 3)
	t.Logf("all pods are Ready %s after the taint", time.Since(begin).Round(100*time.Millisecond))
	sameAddresses(t, before, after)
	for _, p := range after {
		if p.Spec.NodeName == node {
			t.Errorf("%s is on %s, which is off", p.Name, node)
		}
		answers(t, p)
	}
	powerOn(t, node)
	on = true
	kubectl(t, "wait", "--for=condition=Ready", "node/"+node, "--timeout=120s")
	kubectl(t, "taint", "nodes", node, outOfService+"-")
	kubectl(t, "rollout", "restart", "statefulset", "survivor")
	kubectl(t, "rollout", "status", "statefulset", "survivor")
	home := pods(t, "survivor", 3)
	sameAddresses(t, before, home)
	for name, p := range home {
		if p.Spec.NodeName != before[name].Spec.NodeName {
			t.Errorf("%s is on %s, and its home is %s", name, p.Spec.NodeName, before[name].Spec.NodeName)
		}
		answers(t, p)
	}
}

// TestManyAddressesFollow drains a node under sixty pods, while agents and controllers are killed.
func TestManyAddressesFollow(t *testing.T) {
	long(t)
	apply(t, following("crowd", 60))
	before := pods(t, "crowd", 60)
	awaitAllShown(t, before)
	for _, node := range theBed.Cluster.Nodes()[:2] {
		begin := time.Now()
		t.Cleanup(func() { uncordon(t, node) })
		kubectl(t, "cordon", node)
		kubectl(t, "delete", "pod", "-l", "app=crowd", "--field-selector", "spec.nodeName="+node, "--wait=false")
		kubectl(t, "delete", "pod", "-n", "limpet-system", "-l", "app.kubernetes.io/name=limpet-agent", "--wait=false")
		kubectl(t, "delete", "pod", "-n", "limpet-system", "-l", "app.kubernetes.io/name=limpet-controller", "--wait=false")
		await(t, time.Minute, "the pods of "+node+" to go", func(ctx context.Context) (bool, string) {
			left, err := theBed.Kubectl(ctx, "get", "pods", "-l", "app=crowd", "--field-selector", "spec.nodeName="+node, "-o", "name")
			return left == "" && err == nil, fmt.Sprint(left, err)
		})
		after := pods(t, "crowd", 60)
		t.Logf("%s: all pods are Ready after %s", node, time.Since(begin).Round(100*time.Millisecond))
		sameAddresses(t, before, after)
		kubectl(t, "uncordon", node)
	}
	kubectl(t, "scale", "statefulset", "crowd", "--replicas=0")
	kubectl(t, "delete", "statefulset", "crowd")
	kubectl(t, "delete", "persistentpodstate", "crowd", "--ignore-not-found")
	await(t, 2*time.Minute, "nothing to be kept for the pods", func(ctx context.Context) (bool, string) {
		left, err := theBed.Kubectl(ctx, "get", "borrowedaddresses,ipreservations", "-o", "name")
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

// TestADeletedNamespaceLetsItsLoansGo deletes the namespace of a guest. It goes once home has the address back.
func TestADeletedNamespaceLetsItsLoansGo(t *testing.T) {
	const ns = "leaver"
	kubectl(t, "create", "namespace", ns)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", ns, "--ignore-not-found", "--wait=false") })
	if _, err := theBed.KubectlIn(t.Context(), following("leaver", 1), "apply", "-n", ns, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", ns, "rollout", "status", "statefulset", "leaver")
	node, err := theBed.Kubectl(t.Context(), "-n", ns, "get", "pod", "leaver-0", "-o", "jsonpath={.spec.nodeName}")
	if err != nil {
		t.Fatal(err)
	}
	await(t, time.Minute, "the address to be shown", func(ctx context.Context) (bool, string) {
		shown, err := theBed.Kubectl(ctx, "-n", ns, "get", "ipreservations", "-o", "name")
		return shown != "" && err == nil, fmt.Sprint(shown, err)
	})
	t.Cleanup(func() { uncordon(t, node) })
	kubectl(t, "cordon", node)
	kubectl(t, "-n", ns, "delete", "pod", "leaver-0")
	kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.borrower}", "borrowedaddress/leaver-0.eth0.limpet", "--timeout=60s")
	begin := time.Now()
	kubectl(t, "delete", "namespace", ns, "--timeout=120s")
	t.Logf("the namespace is gone after %s", time.Since(begin).Round(100*time.Millisecond))
}

// TestTheRangeOfAHomeGoesToAnotherNode deletes the Node of a home under its guests. Its pod CIDRs go to a new node, while home, which
// was off, comes back with others. The guests keep their addresses, also through a rollout; no pod of the new node gets one.
func TestTheRangeOfAHomeGoesToAnotherNode(t *testing.T) {
	long(t)
	nodes := theBed.Cluster.Nodes()
	home, borrower, fresh := nodes[0], nodes[1], nodes[2]
	only := fmt.Sprintf("      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [%s]}]}]}}}\n      containers:", fresh)
	kubectl(t, "cordon", borrower) // all begin at home
	t.Cleanup(func() { uncordon(t, borrower) })
	apply(t, strings.Replace(following("handed-on", 4), "      containers:", only, 1))
	before := pods(t, "handed-on", 4)
	awaitAllShown(t, before)
	kubectl(t, "uncordon", borrower)
	kubectl(t, "drain", home, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
	sameAddresses(t, before, pods(t, "handed-on", 4))
	var was corev1.Node
	if n, err := theBed.Client.CoreV1().Nodes().Get(t.Context(), home, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	} else {
		was = *n
	}
	for _, node := range []string{home, fresh} {
		kubectl(t, "cordon", node)
		powerOff(t, node)
		kubectl(t, "delete", "node", node)
		kubectl(t, "delete", "pod", "-A", "--force", "--field-selector", "spec.nodeName="+node) // as the garbage collector of pods does, later
	}
	on := map[string]bool{}
	t.Cleanup(func() {
		for _, node := range []string{home, fresh} {
			if !on[node] {
				joinAgain(t, node)
			}
		}
	})
	for _, dir := range []string{"var/lib/cni", "etc/cni/net.d"} { // it is a new machine
		files, err := filepath.Glob(filepath.Join(theBed.Cluster.Disk(fresh), dir, "*"))
		for _, f := range files {
			err = errors.Join(err, os.RemoveAll(f))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	next := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fresh}, Spec: corev1.NodeSpec{PodCIDR: was.Spec.PodCIDR, PodCIDRs: was.Spec.PodCIDRs}}
	if _, err := theBed.Client.CoreV1().Nodes().Create(t.Context(), &next, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	on[fresh] = true
	powerOn(t, fresh)
	kubectl(t, "wait", "--for=condition=Ready", "node/"+fresh, "--timeout=180s")
	fill := strings.Replace(following("filler", 40), "      annotations: {limpet.dev/retention: follow}\n", "", 1)
	apply(t, strings.Replace(fill, "      containers:", "      nodeName: "+fresh+"\n      containers:", 1))
	for name, p := range pods(t, "filler", 40) {
		for guest, g := range before {
			if p.Status.PodIP == g.Status.PodIP || p.Spec.NodeName != fresh {
				t.Errorf("%s on %s has %s, the address of %s", name, p.Spec.NodeName, p.Status.PodIP, guest)
			}
		}
	}
	for _, p := range pods(t, "handed-on", 4) {
		answers(t, p)
	}
	on[home] = true
	if err := os.Remove(filepath.Join(theBed.Cluster.Disk(home), "etc/cni/net.d/10-limpet.conflist")); err != nil { // its pods would have addresses of that range
		t.Fatal(err)
	}
	joinAgain(t, home)
	kubectl(t, "rollout", "restart", "statefulset", "handed-on")
	kubectl(t, "rollout", "status", "statefulset", "handed-on")
	after := pods(t, "handed-on", 4)
	sameAddresses(t, before, after)
	for _, p := range after {
		answers(t, p)
	}
	kubectl(t, "delete", "statefulset", "handed-on")
	kubectl(t, "delete", "persistentpodstate", "handed-on", "--ignore-not-found")
	await(t, 3*time.Minute, "nothing to be kept for the pods", func(ctx context.Context) (bool, string) {
		left, err := theBed.Kubectl(ctx, "get", "borrowedaddresses,ipreservations", "-o", "name")
		return !strings.Contains(left, "handed-on") && err == nil, fmt.Sprint(left, err)
	})
}
