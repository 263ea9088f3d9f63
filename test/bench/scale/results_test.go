package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// TestThePageIsMadeOfItsResults checks that a run of one scene in a new clone keeps the results of all others: the file in
// the repository has all that the page tells.
func TestThePageIsMadeOfItsResults(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/operate/benchmarks-scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := measureScenes(t.Context(), place{root: root}, full, filepath.Join(root, resultsFile), []string{""})
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
