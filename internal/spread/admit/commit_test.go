package admit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/spread/admit"
)

// Each reason that a decision can have is shown from the beginning, so that an alert sees its first increase.
func TestEachReasonIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	admit.NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var shown, declared []string
	for _, m := range families[0].GetMetric() {
		shown = append(shown, m.GetLabel()[0].GetValue())
	}
	for _, path := range []string{"../input.go", "commit.go", "unread.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if ok && len(spec.Values) == 1 && isReason(spec.Type) {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				declared = append(declared, text)
			}
			return true
		})
	}
	slices.Sort(shown)
	slices.Sort(declared)
	if !slices.Equal(shown, declared) {
		t.Errorf("reasons %v are counted, want those that are declared: %v", shown, declared)
	}
}

// isReason reports whether a type is spread.Reason.
func isReason(of ast.Expr) bool {
	switch o := of.(type) {
	case *ast.Ident:
		return o.Name == "Reason"
	case *ast.SelectorExpr:
		return o.Sel.Name == "Reason"
	}
	return false
}
