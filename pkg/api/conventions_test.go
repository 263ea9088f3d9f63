// Package api_test checks conventions that hold for every API group and version.
package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFieldConventions checks that the comment of each field begins with its JSON name and
// says whether the field is optional or required, as the Kubernetes API conventions ask.
func TestFieldConventions(t *testing.T) {
	files, err := filepath.Glob("*/*/*_types.go")
	if err != nil || len(files) < 3 { // at least one of each version
		t.Fatalf("find types: %v, %v", files, err)
	}
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					checkField(t, fset.Position(field.Pos()), field)
				}
			}
			return true
		})
	}
}

func checkField(t *testing.T, at token.Position, field *ast.Field) {
	t.Helper()
	if field.Tag == nil || len(field.Names) == 0 { // embedded
		return
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if field.Doc == nil || !strings.HasPrefix(field.Doc.Text(), name+" ") {
		t.Errorf("%s: comment does not begin with %q", at, name)
		return
	}
	if !slices.ContainsFunc(field.Doc.List, func(c *ast.Comment) bool {
		return c.Text == "// +optional" || c.Text == "// +required"
	}) {
		t.Errorf("%s: %s is neither +optional nor +required", at, name)
	}
}
