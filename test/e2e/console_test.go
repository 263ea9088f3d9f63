package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// limpet runs kubectl-limpet with the rights of an administrator, and returns what it prints.
// Each of the questions here has the answer yes.
func limpet(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "kubectl-limpet"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+theBed.Cluster.Kubeconfig())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl limpet %v: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

// TestKubectlLimpet asks all questions about a pod that was rebuilt.
func TestKubectlLimpet(t *testing.T) {
	apply(t, set("asked", 2, retain, "10"))
	before := pods(t, "asked", 2)
	if err := theBed.AwaitRecorded(t.Context(), "default", "asked", "asked-0", before["asked-0"].Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "pod", "-l", "app=asked")
	after := pods(t, "asked", 2)
	kept(t, before, after)

	limpet(t, "status", "--wait", "--timeout", "1m")
	limpet(t, "audit")
	node := after["asked-0"].Spec.NodeName
	for question, want := range map[string]string{
		"placement": "the pod returns to node " + node,
		"pending":   "it is not Pending",
		"eviction":  "allowed now",
	} {
		if text := limpet(t, "explain", question, "asked-0"); !strings.Contains(text, want) {
			t.Errorf("explain %s: want %q in\n%s", question, want, text)
		}
	}
	var plan struct {
		Pods []struct{ Pod, Outcome string }
	}
	if err := json.Unmarshal([]byte(limpet(t, "plan", "drain", node, "-o", "json")), &plan); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range plan.Pods {
		found = found || p.Pod == "asked-0" && p.Outcome == "Moves"
	}
	if !found {
		t.Errorf("plan drain %s: pod asked-0, whose node is preferred, is not said to move: %+v", node, plan)
	}
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	limpet(t, "support-bundle", "-f", path)
	list, err := exec.CommandContext(t.Context(), "tar", "-tzf", path).Output()
	if err != nil || !strings.Contains(string(list), "logs/limpet-controller-") {
		t.Errorf("support bundle: %v, no log of the controller in\n%s", err, list)
	}
}
