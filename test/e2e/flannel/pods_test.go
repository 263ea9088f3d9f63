package flannel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// pods returns the pods of the StatefulSet by name when so many are Ready.
func (n *network) pods(t *testing.T, want int) map[string]corev1.Pod {
	t.Helper()
	return n.podsOf(t, n.backend, want)
}

// create makes a pod on a node and returns it when it is Ready.
func (n *network) create(t *testing.T, name, node string, args ...string) corev1.Pod {
	t.Helper()
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "main", Image: "cilium/echoserver:latest", ImagePullPolicy: corev1.PullIfNotPresent, Args: args}},
		},
	}
	if _, err := n.bed.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return n.ready(t, name, corev1.Pod{})
}

// ready waits for a Ready pod that is not the former one.
func (n *network) ready(t *testing.T, name string, former corev1.Pod) corev1.Pod {
	t.Helper()
	var found corev1.Pod
	await(t, name+" to be Ready", func(ctx context.Context) (bool, string) {
		p, err := n.bed.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		found = *p
		return p.UID != former.UID && p.DeletionTimestamp == nil && bed.Ready(p), fmt.Sprintf("phase %s on node %q", p.Status.Phase, p.Spec.NodeName)
	})
	return found
}

// rebuild deletes a pod of the StatefulSet and returns the next one of its name.
func (n *network) rebuild(t *testing.T, p corev1.Pod) corev1.Pod {
	t.Helper()
	if err := n.bed.AwaitRecorded(t.Context(), "default", n.backend, p.Name, p.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	kubectl(t, n.bed, "delete", "pod", p.Name, "--timeout=60s")
	next := n.ready(t, p.Name, p)
	n.inSubnet(t, next)
	return next
}

// unnoticed fails if one of the unmoved pods is another one, or if their connection does not work any more.
func (n *network) unnoticed(t *testing.T) {
	t.Helper()
	before := n.answers(t.Context())
	await(t, "more answers over the connection of "+n.caller, func(ctx context.Context) (bool, string) {
		now := n.answers(ctx)
		return now > before, fmt.Sprintf("%d answers, before %d", now, before)
	})
	n.same(t, n.unmoved)
}

// answers is the number of answers that the caller has got over its one connection.
func (n *network) answers(ctx context.Context) int {
	out, err := n.bed.Kubectl(ctx, "logs", n.caller, "--tail=1")
	number, parseErr := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || parseErr != nil {
		return 0
	}
	return number
}

// same fails for each pod that is another one, has another address, was restarted or is not Ready.
func (n *network) same(t *testing.T, before map[string]corev1.Pod) {
	t.Helper()
	for name, b := range before {
		p, err := n.bed.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.UID != b.UID || p.Status.PodIP != b.Status.PodIP || p.Status.ContainerStatuses[0].RestartCount != 0 || !bed.Ready(p) {
			t.Errorf("%s was %s with %s, is %s with %s, %s, Ready %t", name, b.UID, b.Status.PodIP, p.UID, p.Status.PodIP, p.Status.Phase, bed.Ready(p))
		}
	}
}

// awaitPlugin creates pods on a node until one gets its address from the wanted plugin, then deletes them.
func (n *network) awaitPlugin(t *testing.T, node string, limpet bool) {
	t.Helper()
	for i := range 10 {
		name := fmt.Sprintf("first-%s-%t-%d", node, limpet, i)
		ours := n.held(t, n.create(t, name, node))
		kubectl(t, n.bed, "delete", "pod", name, "--timeout=60s")
		if ours == limpet {
			return
		}
	}
	t.Fatalf("on %s, limpet-ipam gives addresses: %t, want %t", node, !limpet, limpet)
}

// mirrored reports whether host-local has a file of a pod's address.
func (n *network) mirrored(t *testing.T, p corev1.Pod) bool {
	t.Helper()
	_, err := n.bed.Cluster.Exec(t.Context(), p.Spec.NodeName, "test", "-s", "/var/lib/cni/networks/cbr0/"+p.Status.PodIP)
	return err == nil
}

// holder is an entry of limpet-ipam list.
type holder struct {
	Pod, State string
	IPs        []string
}

// held reports whether limpet-ipam list shows the address of a pod as attached to it.
func (n *network) held(t *testing.T, p corev1.Pod) bool {
	t.Helper()
	all, err := n.list(t.Context(), p.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(h holder) bool {
		return h.Pod == p.Name && h.State == "attached" && slices.Contains(h.IPs, p.Status.PodIP)
	})
}

func (n *network) list(ctx context.Context, node string) ([]holder, error) {
	out, err := n.bed.Cluster.Exec(ctx, node, "/opt/cni/bin/limpet-ipam", "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var all []holder
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("decode list of %s: %w: %s", node, err, out)
	}
	return all, nil
}
