package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// openNamespace is a namespace whose pods wait for no controller.
const openNamespace = "open"

// fleet is the number of pods in it.
const fleet = 6

// openFleet applies the component deploy/mutating-policy, and creates a StatefulSet in a namespace
// with its label. It returns the pods by name when they are recorded.
func openFleet(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	dir := t.TempDir()
	deploy, err := filepath.Rel(dir, filepath.Join(theBed.Repo, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%[1]s/own-network]\ncomponents: [%[1]s/mutating-policy]\n", deploy)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-k", dir)
	t.Cleanup(func() { kubectl(t, "apply", "-k", theBed.Repo+"/deploy/own-network") })
	t.Cleanup(func() {
		kubectl(t, "delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "limpet-home", "--ignore-not-found")
	})
	t.Cleanup(func() { kubectl(t, "delete", "namespace", openNamespace, "--ignore-not-found") })
	kubectl(t, "create", "namespace", openNamespace)
	kubectl(t, "label", "namespace", openNamespace, "limpet.dev/pin=open")
	if _, err := theBed.KubectlIn(t.Context(), set("open", fleet, retain, "10"), "apply", "-n", openNamespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	before := readyInOpen(t, nil)
	for name, p := range before {
		if err := theBed.AwaitRecorded(t.Context(), openNamespace, "open", name, p.Spec.NodeName); err != nil {
			t.Fatal(err)
		}
	}
	return before
}

// comesHome deletes all pods of the fleet while no controller answers. The API server itself gives
// the next ones the preference for their nodes, and they keep their addresses there.
func comesHome(t *testing.T, before map[string]corev1.Pod) {
	t.Helper()
	kubectl(t, "-n", openNamespace, "delete", "pods", "--all", "--timeout=3m")
	home := 0
	for name, p := range readyInOpen(t, before) {
		node := before[name].Spec.NodeName
		if got := preferredNodes(p); len(got) != 1 || got[0] != node || len(p.Spec.SchedulingGates) > 0 {
			t.Errorf("%s prefers %v behind gates %v, want %s and none", name, got, p.Spec.SchedulingGates, node)
		}
		if p.Spec.NodeName != node {
			continue
		}
		home++
		if ips(p) != ips(before[name]) {
			t.Errorf("%s had %s on %s, has %s", name, ips(before[name]), node, ips(p))
		}
	}
	t.Logf("%d of %d pods are home", home, fleet)
	if home < fleet/2 {
		t.Errorf("%d of %d pods are home", home, fleet)
	}
}

// readyInOpen waits until all pods of the fleet are Ready that are no former ones.
func readyInOpen(t *testing.T, former map[string]corev1.Pod) map[string]corev1.Pod {
	t.Helper()
	found := map[string]corev1.Pod{}
	await(t, 3*time.Minute, "the pods of an open namespace to be Ready", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods(openNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=open"})
		if err != nil {
			return false, err.Error()
		}
		clear(found)
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil && p.UID != former[p.Name].UID {
				found[p.Name] = p
			}
		}
		return len(found) == fleet, fmt.Sprintf("%d Ready", len(found))
	})
	return found
}

// preferredNodes returns the nodes that a pod prefers by their names.
func preferredNodes(p corev1.Pod) (nodes []string) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		for _, field := range term.Preference.MatchFields {
			nodes = append(nodes, field.Values...)
		}
	}
	return nodes
}
