package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestNodeAsksTheAgent looks at how kubectl is called, for which a script stands in that prints it. The end-to-end tests
// run a real one.
func TestNodeAsksTheAgent(t *testing.T) {
	node := env.Node(t)
	agent := testenv.APod("limpet-agent-asked").In(facts.Namespace).On(node.Name)
	agent.Labels = map[string]string{facts.LabelName: facts.Agent}
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: facts.Namespace}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	env.Create(t, agent.Pod)
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	kubectl := func(then string) {
		if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\necho \"$@\"\n"+then), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const answersNo, fails = "echo 'command terminated with exit code 1' >&2\nexit 1", "echo 'error: unable to upgrade connection' >&2\nexit 1"
	for then, no := range map[string]bool{"exit 0": false, answersNo: true, fails: false} {
		kubectl(then)
		out, err := command(t, env.Config, "node", "check", node.Name, "-n", "shop", "-o", "json", "--as=jane", "--as-group=system:masters", "--as-group=b,c")
		if errors.Is(err, errNo) != no || (err != nil) != (then != "exit 0") ||
			!strings.HasPrefix(out, "exec --namespace=limpet-system --container=agent --as=jane --as-group=system:masters --as-group=b,c --kubeconfig=") ||
			!strings.HasSuffix(out, " limpet-agent-asked -- /limpet-ipam check --output=json\n") {
			t.Errorf("%s: %v, kubectl %s", then, err, out)
		}
	}
	kubectl(fails)
	out, err := command(t, env.Config, "node", "logs", node.Name)
	if err == nil || errors.Is(err, errNo) || !strings.HasPrefix(out, "logs --namespace=limpet-system --container=agent --kubeconfig=") || !strings.HasSuffix(out, " limpet-agent-asked\n") {
		t.Errorf("logs: %v, kubectl %s", err, out)
	}
	for verb, format := range map[string]string{"logs": "json", "list": "yaml"} {
		if out, err := command(t, env.Config, "node", verb, node.Name, "-o", format); err == nil || !strings.Contains(err.Error(), "does not print "+format) {
			t.Errorf("node %s -o %s: %v, %s", verb, format, err, out)
		}
	}
	if _, err := command(t, env.Config, "node", "list", "nowhere"); err == nil || !strings.Contains(err.Error(), `no agent runs on node "nowhere"`) {
		t.Errorf("a node without an agent: %v", err)
	}
}
