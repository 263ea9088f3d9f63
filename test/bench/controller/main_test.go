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
	"github.com/limpet-io/limpet/test/bench/bed"
)

// TestBenchmarkOfASmallCluster takes a few pods through everything that the large ones
// are. Its times are of no interest, only that there are any.
func TestBenchmarkOfASmallCluster(t *testing.T) {
	p := here(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	small := scale{nodes: 5, sets: 6, replicas: 10, rate: full.rate}
	text, err := measureAll(ctx, p, small)
	if err != nil {
		t.Fatal(err)
	}
	wholeReport(t, text, 30,
		fmt.Sprintf("| kept, of %d rebuilds | all | %d | met |", small.rebuilds(), small.rebuilds()),
		"| lists of more than one object while it works | 0 | 0 | met |",
		"| patch pods/status | ")
}

// TestBenchmarkOfFewBudgets asks a few budgets all that many are asked.
func TestBenchmarkOfFewBudgets(t *testing.T) {
	p := here(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	few := budgetScale{pods: 60, units: 3, back: 500 * time.Millisecond, rate: 20, seconds: 6, budgets: 3}
	text, err := measureBudgets(ctx, p, few)
	if err != nil {
		t.Fatal(err)
	}
	wholeReport(t, text, 12, "| admission of a request that passes, p99 at 20/s | ≤ 15.0 ms | ", "| refused, one budget | ", "| a PodDisruptionBudget | ")
}

// TestBenchmarkOfASmallSpread asks a small spread all that a large one is asked.
func TestBenchmarkOfASmallSpread(t *testing.T) {
	p := here(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	text, err := measureSpreads(ctx, p, spreadScale{pods: 60, rate: 10, seconds: 2, storm: 60, clients: 5, wanted: 10})
	if err != nil {
		t.Fatal(err)
	}
	wholeReport(t, text, 14, "| admission, subset with a maximum, p99 at 10/s | ≤ 10.0 ms | ", "| pods without a subset | 0 | 0 | met |")
}

// here builds the controller, and finds the other programs.
func here(t *testing.T) bed.Place {
	t.Helper()
	if testing.Short() {
		t.Skip("-short was given, and this starts an API server for a minute; make test-all runs it")
	}
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	controller := filepath.Join(t.TempDir(), "limpet-controller")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", controller, filepath.Join(root, "cmd", "controller")).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bed.Place{Root: root, Controller: controller, Assets: os.Getenv(testenv.AssetsVar)}
}

// wholeReport fails unless a report has some texts, and rows without a hole.
func wholeReport(t *testing.T, text string, least int, wants ...string) {
	t.Helper()
	for _, want := range wants {
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
	if rows < least {
		t.Errorf("%d rows, want all tables", rows)
	}
	if t.Failed() {
		t.Log(text)
	}
}
