package budget_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/limpet-io/limpet/internal/budget"
)

// TestTheListsHaveAllConstants compares them with the source: a metric counts a value that is in no list as another one.
func TestTheListsHaveAllConstants(t *testing.T) {
	declared := map[string][]string{}
	for _, file := range []string{"pod.go", "decision.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				kind, typed := spec.Type.(*ast.Ident)
				if text, is := spec.Values[0].(*ast.BasicLit); typed && is && text.Value != `""` {
					value, _ := strconv.Unquote(text.Value)
					declared[kind.Name] = append(declared[kind.Name], value)
				}
			}
			return true
		})
	}
	same(t, "vectors", budget.Vectors, declared["Vector"])
	same(t, "verdicts", budget.Verdicts, declared["Verdict"])
	same(t, "reasons", budget.Reasons, declared["Reason"])
}

func same[T ~string](t *testing.T, what string, list []T, declared []string) {
	t.Helper()
	var got []string
	for _, v := range list {
		got = append(got, string(v))
	}
	slices.Sort(got)
	slices.Sort(declared)
	if len(declared) < 3 || !slices.Equal(got, declared) {
		t.Errorf("%s: the list has %v, the constants are %v", what, got, declared)
	}
}
