package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// TestThePageIsMadeOfItsResults checks that a run of one scene in a new clone keeps the results of all others: the file in
// the repository has all that the page tells.
func TestThePageIsMadeOfItsResults(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/operate/runs/scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := measureScenes(t.Context(), place{Place: bed.Place{Root: root}}, full, filepath.Join(root, resultsFile), []string{""})
	if err != nil {
		t.Fatal(err)
	}
	if text != string(page) {
		t.Errorf("the page does not have what %s has; this would be the page:\n%s", resultsFile, text)
	}
}

// TestMachinesOfScenes checks that scenes of two machines name theirs.
func TestMachinesOfScenes(t *testing.T) {
	old, other := measure.Machine{CPU: "old"}, measure.Machine{CPU: "other"}
	r := results{Ran: map[string]ran{sceneMemory: {Machine: old}, sceneWork: {Machine: old}}}
	if got := r.machines(); !strings.HasPrefix(got, "* old, ") || strings.Count(got, "\n") != 1 {
		t.Errorf("one machine: %q", got)
	}
	r.Ran[sceneWork] = ran{Machine: other}
	if got := r.machines(); !strings.HasPrefix(got, "* memory: old, ") || !strings.Contains(got, "\n* work: other, ") {
		t.Errorf("two machines: %q", got)
	}
}

// TestFewerAgentsAreScaled checks that only a scene with fewer nodes tells an estimate.
func TestFewerAgentsAreScaled(t *testing.T) {
	few, many := (&agentWork{Nodes: 500}).scaled(), (&agentWork{Nodes: 5000, Rate: 50, Server: 4e9, Program: 1e9}).scaled()
	if !strings.Contains(few, "5000 nodes have 10 times as many: an estimate") || strings.Contains(few, "memory") {
		t.Errorf("with 500 nodes: %s", few)
	}
	if strings.Contains(many, "estimate") || !strings.Contains(many, "4000.0 MB") || !strings.Contains(many, "at 50 a second") {
		t.Errorf("with 5000 nodes: %s", many)
	}
}
