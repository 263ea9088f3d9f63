package reconcile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
)

// Prometheus does not see an increase where a counter appears with 1, so that each cause has its
// series before the first pod. Each cause of internal/pin has one.
func TestEachCauseIsShownBeforeTheFirstRebuild(t *testing.T) {
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
				if label.GetName() == "cause" {
					shown[label.GetValue()] = true
				}
			}
		}
	}
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
