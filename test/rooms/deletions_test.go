package rooms_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// deleters are the files that may delete API objects, and what they delete.
var deleters = map[string]string{
	"internal/platform/evict/evict.go":     "pods",
	"internal/pin/reconcile/generate.go":   "PersistentPodStates that it has generated",
	"internal/pin/reconcile/record.go":     "generated PersistentPodStates whose workload is gone",
	"internal/loan/reconcile/lender.go":    "BorrowedAddresses of owners that do not return",
	"internal/agent/loansteps.go":          "loans that have ended, of addresses of its node",
	"internal/agent/show/pass.go":          "IPReservations and NodeIPPools of its node",
	"internal/budget/reconcile/probe.go":   "nothing: it sends dry runs, which the guard refuses",
	"internal/console/evict.go":            "nothing: it sends dry runs",
	"internal/console/trialrun.go":         "the namespace that kubectl limpet test has made, and the pod in it",
	"internal/budget/reconcile/child.go":   "the PodDisruptionBudget that it has made for a budget over sites",
	"internal/budget/reconcile/replace.go": "PodDisruptionBudgets that PodUnavailableBudgets replace, where a namespace asks for that",
}

// TestOneRoomDeletesPods finds calls that delete or evict API objects: methods of a client whose first argument
// is the context, or the eviction subresource. A new place must be listed above, and deletes no pods.
func TestOneRoomDeletesPods(t *testing.T) {
	found := map[string]bool{}
	for dir, p := range packages(t) {
		if dir == "internal/testenv" {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(dir, name)
			if deletes(t, filepath.Join(root, path)) {
				found[path] = true
			}
		}
	}
	for path := range found {
		if deleters[path] == "" {
			t.Errorf("%s deletes API objects; pods are deleted by internal/platform/evict alone, other objects need a line in this test", path)
		}
	}
	for path, what := range deleters {
		if !found[path] {
			t.Errorf("%s does not delete %s any more; remove its line from this test", path, what)
		}
	}
}

// deletes reports whether a file has such a call. A call of the Evictor is none: it names no API object's client.
func deletes(t *testing.T, path string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	must(t, err)
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		first, isName := call.Args[0].(*ast.Ident)
		byClient := isName && first.Name == "ctx" && slices.Contains([]string{"Delete", "DeleteExactly", "DeleteAllOf", "DeleteCollection", "Evict", "EvictV1"}, method.Sel.Name)
		text, isText := call.Args[0].(*ast.BasicLit)
		eviction := method.Sel.Name == "SubResource" && isText && strings.Contains(text.Value, "eviction")
		receiver, isField := method.X.(*ast.SelectorExpr)
		byEvictor := isField && strings.EqualFold(receiver.Sel.Name, "evictor")
		found = found || (byClient && !byEvictor) || eviction
		return true
	})
	return found
}
