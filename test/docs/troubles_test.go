package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	cni "github.com/containernetworking/cni/pkg/types"
)

// chosen are the constants from which a Warning takes its reason, where the call names no constant: by directory and
// expression.
var chosen = map[string][]string{
	"internal/agent/plan reason":               {"ReasonForeignNetwork", "ReasonForwardingDropped"},
	"internal/budget/reconcile c.Reason":       {"ReasonEnforced*"},
	"internal/pin/reconcile d.Reason":          {"ReasonReclaimed", "ReasonConflict", "ReasonNotOwner"},
	"internal/pin/reconcile generation.Reason": {"ReasonForeign", "ReasonNoKeys", "ReasonBadKeys", "ReasonBadKeep", "ReasonKeepRefused"},
	"internal/pin/reconcile is.Reason":         {"ReasonNodeLabelMissing"},
	"internal/pin/reconcile reason":            {"ReasonNodeSilent", "ReasonGateNotOpened"},
	"internal/pin/reconcile rebuild.Outcome":   {"Moved", "Lost"},
	"internal/pin/reconcile w.Event()":         {"ReasonWaiting", "ReasonNotStarted"},
	"internal/spread/admit reason": {
		"ReasonNoneFits", "internal/spread ReasonFull", "ReasonSkipped", "ReasonNoSubset", "ReasonBadPatch",
		"reasonSizeUnknown", "reasonNotBooked", "reasonNotRead",
	},
}

// TestEveryWarningHasAnAnswer looks for the Warning events in the source: troubles.md names the reason of each.
func TestEveryWarningHasAnAnswer(t *testing.T) {
	source := parsed(t)
	page, used, found := read(t, "docs/operate/troubles.md"), map[string]bool{}, 0
	for dir, files := range source {
		for _, reason := range warningsOf(files) {
			names := []string{nameOf(reason)}
			if key := dir + " " + types.ExprString(reason); chosen[key] != nil {
				names, used[key] = chosen[key], true
			}
			for _, name := range names {
				values := valuesOf(source, name)
				if text, ok := reason.(*ast.BasicLit); ok {
					values = []string{strings.Trim(text.Value, `"`)}
				}
				if len(values) == 0 {
					t.Errorf("%s: a Warning has the reason %s, of which no constant is known: add it to chosen", dir, types.ExprString(reason))
				}
				for _, value := range values {
					found++
					if !strings.Contains(page, "`"+value+"`") {
						t.Errorf("docs/operate/troubles.md does not name the reason %s of a Warning of %s", value, dir)
					}
				}
			}
		}
	}
	for key := range chosen {
		if !used[key] {
			t.Errorf("chosen has %q, and no Warning is made so", key)
		}
	}
	if found < 35 {
		t.Errorf("found %d reasons: the test tests little", found)
	}
}

// TestEveryConditionHasAnAnswer takes the conditions from the reference.
func TestEveryConditionHasAnAnswer(t *testing.T) {
	page, found := read(t, "docs/operate/troubles.md"), 0
	for _, line := range section(t, "docs/operate/reference.md", "## Conditions") {
		m := regexp.MustCompile("^\\| `(\\w+)` \\|").FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found++
		if !strings.Contains(page, "| `"+m[1]+"` |") {
			t.Errorf("docs/operate/troubles.md does not name the condition %s", m[1])
		}
	}
	if found < 10 {
		t.Errorf("found %d conditions: the test tests little", found)
	}
}

// TestEveryCodeHasAnAnswer looks for the codes in the source of the plugin.
func TestEveryCodeHasAnAnswer(t *testing.T) {
	standard := map[string]uint{
		"ErrIncompatibleCNIVersion": cni.ErrIncompatibleCNIVersion, "ErrInvalidEnvironmentVariables": cni.ErrInvalidEnvironmentVariables,
		"ErrIOFailure": cni.ErrIOFailure, "ErrDecodingFailure": cni.ErrDecodingFailure, "ErrInvalidNetworkConfig": cni.ErrInvalidNetworkConfig,
		"ErrInvalidNetNS": cni.ErrInvalidNetNS, "ErrTryAgainLater": cni.ErrTryAgainLater, "ErrInternal": cni.ErrInternal,
	}
	codes := map[string]bool{}
	for dir, files := range parsed(t) {
		if dir != "internal/cni" && !strings.HasPrefix(dir, "internal/cni/") {
			continue
		}
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && of.Name == "types" && strings.HasPrefix(n.Sel.Name, "Err") && n.Sel.Name != "Error" {
						code, known := standard[n.Sel.Name]
						if !known {
							t.Errorf("%s uses types.%s: add it here", dir, n.Sel.Name)
						}
						codes[fmt.Sprint(code)] = true
					}
				case *ast.ValueSpec:
					if of, ok := n.Type.(*ast.Ident); ok && of.Name == "uint" && strings.HasPrefix(strings.ToLower(n.Names[0].Name), "code") {
						codes[n.Values[0].(*ast.BasicLit).Value] = true
					}
				}
				return true
			})
		}
	}
	page := read(t, "docs/operate/troubles.md")
	for code := range codes {
		if !strings.Contains(page, "\n| "+code+" |") {
			t.Errorf("docs/operate/troubles.md does not name code %s", code)
		}
	}
	if len(codes) < 14 {
		t.Errorf("found %d codes: the test tests little", len(codes))
	}
}

// parsed returns the files of the product, without tests, by directory.
func parsed(t *testing.T) map[string][]*ast.File {
	t.Helper()
	source := map[string][]*ast.File{}
	for _, top := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(name))
			source[dir] = append(source[dir], file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return source
}

// warningsOf returns the reasons of the events of some files that are Warnings, or may be.
func warningsOf(files []*ast.File) (reasons []ast.Expr) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				call, ok := n.Fun.(*ast.SelectorExpr)
				if ok && call.Sel.Name == "Eventf" && len(n.Args) > 3 && nameOf(n.Args[2]) != "EventTypeNormal" {
					reasons = append(reasons, unconverted(n.Args[3]))
				}
			case *ast.CompositeLit:
				fields := map[string]ast.Expr{}
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						fields[nameOf(pair.Key)] = pair.Value
					}
				}
				if kind := fields["Type"]; kind != nil && nameOf(kind) == "EventTypeWarning" {
					reasons = append(reasons, unconverted(fields["Reason"]))
				}
			}
			return true
		})
	}
	return reasons
}

// unconverted returns the x of string(x).
func unconverted(e ast.Expr) ast.Expr {
	if call, ok := e.(*ast.CallExpr); ok && nameOf(call.Fun) == "string" && len(call.Args) == 1 {
		return call.Args[0]
	}
	return e
}

// nameOf returns the last name of an expression such as pin.ReasonReleased.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// valuesOf returns the values of all string constants whose names match a pattern, which a directory may precede. A
// reason begins with a capital letter.
func valuesOf(source map[string][]*ast.File, pattern string) (values []string) {
	in, name, ok := strings.Cut(pattern, " ")
	if ok {
		pattern = name
	}
	for dir, files := range source {
		if ok && dir != in {
			continue
		}
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Values) != len(spec.Names) {
					return true
				}
				for i, name := range spec.Names {
					if match, err := path.Match(pattern, name.Name); err != nil || !match {
						continue
					}
					if text, ok := spec.Values[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
						value, _ := strconv.Unquote(text.Value) // it was parsed
						if value != "" && value[0] >= 'A' && value[0] <= 'Z' {
							values = append(values, value)
						}
					} else if of := nameOf(spec.Values[i]); of != "" {
						values = append(values, valuesOf(source, of)...)
					}
				}
				return true
			})
		}
	}
	return values
}
