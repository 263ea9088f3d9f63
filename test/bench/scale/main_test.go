package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/bench/bed"
)

// TestSkipPast reads a text byte by byte, and one that never comes.
func TestSkipPast(t *testing.T) {
	if err := skipPast(iotest.OneByteReader(strings.NewReader("ababc, abc")), []byte("abc")); err != nil {
		t.Error(err)
	}
	if err := skipPast(strings.NewReader("ababab"), []byte("abc")); !errors.Is(err, errNoEnd) {
		t.Errorf("without the text: %v, want %v", err, errNoEnd)
	}
}

// TestBenchmarkOfASmallCluster runs each scene with a few pods. Its times are of no interest, only
// that there are any, and that a later run shows the scenes of an earlier one.
func TestBenchmarkOfASmallCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this starts an API server for minutes; make test-all runs it")
	}
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	p := place{bed.Place{Root: root, Controller: filepath.Join(t.TempDir(), "limpet-controller"), Assets: os.Getenv(testenv.AssetsVar)}, t.TempDir()}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p.Controller, filepath.Join(root, "cmd", "controller")).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	small, file, text := scale{Nodes: 5, Pods: 500, RecordedNodes: 5, RecordedPods: 500, WorkNodes: 5, WorkPods: 500, AgentNodes: 5, AgentPods: 500, LoanNodes: 5, Loans: 20, Rebuilds: 20, Rest: 2 * time.Second, Bound: 5 * time.Minute}, filepath.Join(t.TempDir(), "results.json"), ""
	for _, name := range sceneNames() {
		if text, err = measureScenes(ctx, p, small, file, []string{name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"| nodes, workloads, pods | 5, 10, 500 | 5, 10, 500 |", "| PersistentPodStates, recorded pods | 2, 100 | 10, 500 |",
		"| lists of more than one object, writes at a restart | 0, ",
		"\n| recorded 500 | " + time.Now().Format("2006-"), "\n| work | ", "\nMeasured on " + time.Now().Format("2006-"),
		"| 2 rebuilds, each of another workload | ",
		"| controllers that a restart of the API server ended | 0 | 0 | met |", "| writes of agents for a rebuild of 4 s | ", "\n| nodes, loans | 5, 20 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
