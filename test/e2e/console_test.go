package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limpet runs kubectl-limpet with the rights of an administrator, and returns what it prints.
// Each of the questions here has the answer yes.
func limpet(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "kubectl-limpet"), args...)
	path := filepath.Dir(theBed.Cluster.Kubectl()) + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+theBed.Cluster.Kubeconfig(), "PATH="+path)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	t.Log("kubectl limpet", args, "\n"+errs.String())
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
	if err != nil || !strings.Contains(string(list), "logs/limpet-controller-") || strings.Count(string(list), ".plugin.log") != 3 {
		t.Errorf("support bundle: %v, no log of the controller, or not that of the plugin of each node in\n%s", err, list)
	}
	if text := limpet(t, "node", "list", node); !strings.Contains(text, "asked-0") {
		t.Errorf("node list %s:\n%s", node, text)
	}
	if text := limpet(t, "node", "check", node); !strings.Contains(text, "sound") {
		t.Errorf("node check %s:\n%s", node, text)
	}
	if text := limpet(t, "test", "--timeout=5m"); !strings.Contains(text, "node kept") || !strings.Contains(text, "address kept") {
		t.Errorf("test: %s", text)
	}
	limpet(t, "lost")
	givenUp(t)
}

// givenUp scales asked-1 away and releases its addresses with the rights of an editor of the namespace. The running
// asked-0 keeps its own.
func givenUp(t *testing.T) {
	t.Helper()
	apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: asked-editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: editor}]
`)
	before := pods(t, "asked", 2)["asked-1"].Status.PodIP
	kubectl(t, "scale", "statefulset", "asked", "--replicas=1")
	await(t, time.Minute, "the addresses of asked-1 to be reserved", func(ctx context.Context) (bool, string) {
		out, err := shownState(ctx, "asked-1")
		return err == nil && out == "Reserved", out
	})
	limpet(t, "release", "asked-1", "--dry-run=server", "--as=editor")
	if text := limpet(t, "release", "asked-1", "--as=editor", "--timeout", "2m"); !strings.Contains(text, before) || !strings.Contains(text, "Freed") {
		t.Errorf("release: want %s freed in\n%s", before, text)
	}
	out, err := theBed.Kubectl(t.Context(), "get", "ipreservations", "-o", "jsonpath={range .items[*]}{.status.pod}={.status.state} {end}")
	if err != nil || strings.Contains(out, "asked-1=") || !strings.Contains(out, "asked-0=Attached") {
		t.Errorf("after the release: %v, %s", err, out)
	}
}
