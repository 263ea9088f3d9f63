package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheAgentLinksFewKinds lists what the agent links. Most of its memory are the used pages of its binary, and the
// kinds of all groups of Kubernetes would make the binary half as large again.
func TestTheAgentLinksFewKinds(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	core := false
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		core = core || dep == "k8s.io/api/core/v1"
		for _, banned := range []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/api/"} {
			if strings.HasPrefix(dep, banned) && dep != "k8s.io/api/core/v1" {
				t.Errorf("limpet-agent links %s", dep)
			}
		}
	}
	if !core {
		t.Error("limpet-agent does not link the kinds of pods and nodes: the list is not that of the agent")
	}
}
