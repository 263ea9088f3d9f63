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
	for _, tc := range []struct {
		status string
		want   error
	}{{"0", nil}, {"1", errNo}} {
		status, want := tc.status, tc.want
		if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\necho \"$@\"\nexit "+status+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := command(t, env.Config, "node", "check", node.Name, "-n", "shop", "-o", "json")
		if !errors.Is(err, want) || !strings.HasPrefix(out, "exec --namespace=limpet-system --container=agent --kubeconfig=") ||
			!strings.HasSuffix(out, " limpet-agent-asked -- /limpet-ipam check --output=json\n") {
			t.Errorf("status %s: %v, kubectl %s", status, err, out)
		}
	}
	out, err := command(t, env.Config, "node", "logs", node.Name)
	if !errors.Is(err, errNo) || !strings.HasPrefix(out, "logs --namespace=limpet-system --container=agent --kubeconfig=") || !strings.HasSuffix(out, " limpet-agent-asked\n") {
		t.Errorf("logs: %v, kubectl %s", err, out)
	}
	if _, err := command(t, env.Config, "node", "list", "nowhere"); err == nil || !strings.Contains(err.Error(), `no agent runs on node "nowhere"`) {
		t.Errorf("a node without an agent: %v", err)
	}
}
