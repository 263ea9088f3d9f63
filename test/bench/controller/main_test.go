package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/testenv"
)

// TestBenchmarkOfASmallCluster takes a few pods through everything that the large ones
// are. Its times are of no interest, only that there are any.
func TestBenchmarkOfASmallCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this starts an API server for a minute; make test runs it")
	}
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	controller := filepath.Join(t.TempDir(), "limpet-controller")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", controller, filepath.Join(root, "cmd", "controller")).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	small := scale{nodes: 5, sets: 6, replicas: 10, rate: full.rate}
	text, err := measureAll(ctx, place{root: root, controller: controller, assets: os.Getenv(testenv.AssetsVar)}, small)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("| kept, of %d rebuilds | all | %d | met |", small.rebuilds(), small.rebuilds()),
		"| lists of more than one object while it works | 0 | 0 | met |",
		"| patch pods/status | ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	// What was not measured is a dash, nothing at all, or not a number.
	hole := regexp.MustCompile(`–|NaN|Inf|\| 0 pods|\| +\|  `)
	rows := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what ") {
			continue
		}
		rows++
		if hole.MatchString(line) {
			t.Errorf("row with nothing in it: %s", line)
		}
	}
	if rows < 30 {
		t.Errorf("%d rows, want all tables", rows)
	}
	if t.Failed() {
		t.Log(text)
	}
}
