package flannel_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// flannel is the manifest of flannel.
//
//go:embed testdata/flannel.yaml
var flannel string

// guests is a StatefulSet whose pods return to their nodes and addresses.
const guests = `apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: %[1]s
  annotations:
    kruise.io/auto-generate-persistent-pod-state: "true"
    kruise.io/preferred-persistent-topology: kubernetes.io/hostname
spec:
  serviceName: %[1]s
  replicas: 4
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {io.kubernetes.cri/reserved-ip-duration: "30"}
    spec:
      nodeSelector: {network: %[1]s}
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`

// network is flannel with one backend on two nodes, and the pods there.
type network struct {
	bed                *bed.Bed
	backend, namespace string
	nodes              []string
	// unmoved are pods that the test does not delete. One of them has an open connection to the other on another node.
	unmoved map[string]corev1.Pod
	caller  string
}

// install applies the manifest of flannel.
func (n *network) install(t *testing.T) {
	t.Helper()
	for _, node := range n.nodes {
		kubectl(t, n.bed, "label", "--overwrite", "node", node, "network="+n.backend)
	}
	manifest := strings.NewReplacer("NETWORK_SPACE", n.namespace, "BACKEND", n.backend).Replace(flannel)
	if _, err := n.bed.KubectlIn(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// start creates pods before there is a limpet-ipam.
func (n *network) start(t *testing.T) {
	n.awaitFlannel(t)
	if _, err := n.bed.KubectlIn(t.Context(), fmt.Sprintf(guests, n.backend), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	callee := n.pods(t, 4)[n.backend+"-0"]
	away := n.nodes[0]
	if callee.Spec.NodeName == away {
		away = n.nodes[1]
	}
	n.caller = "caller-" + n.backend
	caller := n.create(t, n.caller, away, "hold", callee.Status.PodIP+":8080")
	n.unmoved = map[string]corev1.Pod{callee.Name: callee, n.caller: caller}
	for _, p := range n.pods(t, 4) {
		n.inSubnet(t, p)
		if !n.mirrored(t, p) {
			t.Errorf("%s has %s on %s, and host-local has no file of it", p.Name, p.Status.PodIP, p.Spec.NodeName)
		}
	}
	n.unnoticed(t)
}

// changeOver has new pods get addresses of limpet-ipam.
func (n *network) changeOver(t *testing.T) {
	n.rewind(t)
	n.patch(t)
	n.unnoticed(t)
}

// patch has flannel name limpet-ipam.
func (n *network) patch(t *testing.T) {
	t.Helper()
	kubectl(t, n.bed, "-n", n.namespace, "patch", "configmap", "kube-flannel-cfg", "--patch-file", filepath.Join(n.bed.Repo, "deploy/examples/flannel.yaml"))
	n.restart(t)
	for _, node := range n.nodes {
		n.awaitPlugin(t, node, true)
	}
}

// addressesReturn rebuilds a pod of host-local's time: it loses its address once, and has its next one from then on.
func (n *network) addressesReturn(t *testing.T) {
	name := n.backend + "-1"
	first := n.rebuild(t, n.pods(t, 4)[name])
	if !n.held(t, first) {
		t.Fatalf("%s has %s on %s, which limpet-ipam does not know", name, first.Status.PodIP, first.Spec.NodeName)
	}
	if !n.mirrored(t, first) {
		t.Errorf("host-local has no file of %s, the address of %s on %s", first.Status.PodIP, name, first.Spec.NodeName)
	}
	second := n.rebuild(t, first)
	if first.Spec.NodeName != second.Spec.NodeName || first.Status.PodIP != second.Status.PodIP {
		t.Errorf("%s was on %s with %s, is on %s with %s", name, first.Spec.NodeName, first.Status.PodIP, second.Spec.NodeName, second.Status.PodIP)
	}
	kubectl(t, n.bed, "scale", "statefulset", n.backend, "--replicas=8")
	for _, p := range n.pods(t, 8) {
		n.inSubnet(t, p)
	}
	n.unnoticed(t)
}

// changeBack has new pods get addresses of host-local again, while pods of limpet-ipam run.
func (n *network) changeBack(t *testing.T) {
	ours := n.pods(t, 8)
	for name, p := range ours {
		if !n.held(t, p) {
			delete(ours, name)
		}
	}
	if len(ours) < 5 {
		t.Fatalf("%d pods have addresses of limpet-ipam, want 5 or more", len(ours))
	}
	n.rewind(t)
	n.install(t)
	n.restart(t)
	for _, node := range n.nodes {
		n.awaitPlugin(t, node, false)
	}
	n.unnoticed(t)
	n.same(t, ours)
	kubectl(t, n.bed, "scale", "statefulset", n.backend, "--replicas=12")
	for _, p := range n.pods(t, 12) {
		n.inSubnet(t, p)
	}
	n.same(t, ours)
	n.rebuild(t, ours[n.backend+"-1"])
}

// end deletes all pods. Each plugin frees the addresses of its own time.
func (n *network) end(t *testing.T) {
	n.unnoticed(t)
	kubectl(t, n.bed, "delete", "pod", n.caller, "--timeout=60s")
	kubectl(t, n.bed, "delete", "statefulset", n.backend, "--timeout=60s")
	kubectl(t, n.bed, "delete", "pod", "-l", "app="+n.backend, "--ignore-not-found", "--timeout=60s")
	for _, node := range n.nodes {
		await(t, "the addresses on "+node+" to be free", func(ctx context.Context) (bool, string) { return n.free(ctx, node) })
	}
}

// free reports whether host-local has files of the pods alone that run on a node, such as those of Limpet's controller,
// and whether limpet-ipam has no attached address.
func (n *network) free(ctx context.Context, node string) (free bool, state string) {
	pods, podsErr := n.bed.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	files, filesErr := n.bed.Cluster.Exec(ctx, node, "find", "/var/lib/cni/networks/cbr0", "-name", "10.*", "-printf", "%f\n")
	held, heldErr := n.list(ctx, node)
	if err := errors.Join(podsErr, filesErr, heldErr); err != nil {
		return false, err.Error()
	}
	var running []string
	for _, p := range pods.Items {
		if !p.Spec.HostNetwork {
			running = append(running, p.Status.PodIP)
		}
	}
	slices.Sort(running)
	attached := slices.ContainsFunc(held, func(h holder) bool { return h.State == "attached" })
	known := slices.Sorted(slices.Values(strings.Fields(string(files))))
	return slices.Equal(running, known) && !attached, fmt.Sprintf("pods have %v, host-local has files of %v, limpet-ipam has %v", running, known, held)
}

// restart lets flannel read its ConfigMap.
func (n *network) restart(t *testing.T) {
	t.Helper()
	kubectl(t, n.bed, "-n", n.namespace, "rollout", "restart", "daemonset/kube-flannel-ds")
	n.awaitFlannel(t)
}

func (n *network) awaitFlannel(t *testing.T) {
	t.Helper()
	kubectl(t, n.bed, "-n", n.namespace, "rollout", "status", "daemonset/kube-flannel-ds", "--timeout=120s")
}

// rewind sets the cursor of host-local back to the first address, so that the next addresses in order are in use.
func (n *network) rewind(t *testing.T) {
	t.Helper()
	for _, node := range n.nodes {
		first := n.subnet(t, node).Addr().Next()
		if _, err := n.bed.Cluster.Exec(t.Context(), node, "sh", "-ec", "printf "+first.String()+" >/var/lib/cni/networks/cbr0/last_reserved_ip.0"); err != nil {
			t.Fatal(err)
		}
	}
}

// subnet is the subnet that flannel has for a node.
func (n *network) subnet(t *testing.T, node string) netip.Prefix {
	t.Helper()
	object, err := n.bed.Client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := netip.ParsePrefix(object.Spec.PodCIDR)
	if err != nil {
		t.Fatal(err)
	}
	return subnet
}

// inSubnet fails for a pod with an address that is not of its node's subnet.
func (n *network) inSubnet(t *testing.T, p corev1.Pod) {
	t.Helper()
	address, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil || !n.subnet(t, p.Spec.NodeName).Contains(address) {
		t.Errorf("%s has %s on %s, which is not in its subnet: %v", p.Name, p.Status.PodIP, p.Spec.NodeName, err)
	}
}
