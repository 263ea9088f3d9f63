package reconcile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
)

// Prometheus does not see an increase where a counter appears with 1, so that each cause has its
// series before the first pod. Each cause of internal/pin has one.
func TestEachCauseIsShownBeforeTheFirstRebuild(t *testing.T) {
	shown := shownCauses(t, "limpet_rebuilds_total", "limpet_releases_total")
	causes := causes(t)
	if len(causes) < 10 {
		t.Errorf("found the causes %v: the test tests little", causes)
	}
	for _, cause := range append(causes, pin.CauseLabelMissing, pin.ReasonNodeGone, pin.ReasonNodeNotReady, pin.ReasonSubsetElsewhere) {
		if !shown[cause] {
			t.Errorf("the cause %s has no series before the first rebuild", cause)
		}
	}
}

// The causes of releases are the reasons with which pods are released, and no others.
func TestEachCauseIsShownBeforeTheFirstRelease(t *testing.T) {
	shown := slices.Sorted(maps.Keys(shownCauses(t, "limpet_releases_total")))
	if want := slices.Sorted(slices.Values(append(pin.PlaceReasons, pin.ReasonNotStarted))); !slices.Equal(shown, want) {
		t.Errorf("the causes %q have series, want %q", shown, want)
	}
}

// shownCauses returns the causes of which a new registry has series of some metrics.
func shownCauses(t *testing.T, names ...string) map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	controller.NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if slices.Contains(names, family.GetName()) && label.GetName() == "cause" {
					shown[label.GetValue()] = true
				}
			}
		}
	}
	return shown
}

// causes returns the values of the constants Cause… of internal/pin.
func causes(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../judge.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && strings.HasPrefix(spec.Names[0].Name, "Cause") && len(spec.Values) == 1 {
			if value, is := spec.Values[0].(*ast.BasicLit); is {
				all = append(all, strings.Trim(value.Value, `"`))
			}
		}
		return true
	})
	return all
}
