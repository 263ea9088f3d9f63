package keepnodes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/programs"
)

// TestThePageTakesAnnotationsAway runs what the page says for those who switch the feature off, while an autoscaler removes a
// Node: an apply makes what is missing.
func TestThePageTakesAnnotationsAway(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/autoscalers-and-gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "this removes what is left:\n")
	script, _, _ = strings.Cut(script, "\n## ")
	kubectl, err := programs.Find(os.Getenv(programs.Var), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	kept, gone := testenv.ANode(env.Name("n")).Node, testenv.ANode(env.Name("gone")).Node
	kept.Annotations = map[string]string{autoscaler: "true"}
	for _, n := range []*corev1.Node{kept, gone} {
		env.Create(t, n)
		ours := client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+n.Name+`","annotations":{"`+autoscaler+`":"true","`+karpenter+`":"true"}}}`))
		if err := env.Client.Patch(t.Context(), n, ours, client.FieldOwner("limpet-keep-nodes")); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	wrapper := "#!/bin/sh\n" + kubectl + ` "$@" || exit` + "\n[ $1 != get ] || " + kubectl + " delete node " + gone.Name + " >&2\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(t, ""), "PATH="+dir+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	if env.Read(t, client.ObjectKeyFromObject(kept), kept); len(kept.Annotations) != 1 {
		t.Errorf("the Node has %v\n%s", kept.Annotations, out)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
		t.Errorf("a Node that an autoscaler removed is there: %v\n%s", err, out)
	}
}
