// Package docs_test keeps the documents honest: what they link to and name exists, and each row of a table of promises
// names a test.
package docs_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// TestEveryPromiseHasItsTest looks for the tests that pages name: in the directory that stands after the name, and
// without one anywhere. Each row of a table in docs/ whose last column has the title "test" names one, another check, or
// "none".
func TestEveryPromiseHasItsTest(t *testing.T) {
	sources := sourcesIn(t)
	promises, found := 0, 0
	for _, page := range pages(t) {
		if page == "CHANGELOG.md" {
			continue // names what was
		}
		inTable := false
		for line := range strings.Lines(read(t, page)) {
			names := namesIn(line)
			for _, n := range names {
				found++
				if why := n.missing(sources); why != "" {
					t.Errorf("%s: %s", page, why)
				}
			}
			cells := strings.Split(strings.TrimSpace(line), "|")
			switch last := strings.TrimSpace(cells[max(len(cells)-2, 0)]); {
			case !strings.HasPrefix(line, "|"):
				inTable = false
			case last == "test" || last == "tests":
				inTable = strings.HasPrefix(page, "docs/")
			case inTable && !strings.HasPrefix(line, "|--") && !strings.HasPrefix(line, "| **"): // the title of some rows
				promises++
				if !strings.Contains(last, "`") && !strings.HasPrefix(last, "none") {
					t.Errorf("%s: no test is named for: %s", page, line)
				}
			}
		}
	}
	if promises < 100 || found < 200 {
		t.Errorf("found %d promises and %d tests: this tests little", promises, found)
	}
}

// section returns the lines of a page under a heading.
func section(t *testing.T, page, heading string) []string {
	t.Helper()
	lines := strings.Split(read(t, page), "\n")
	at := slices.Index(lines, heading)
	if at < 0 {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	lines = lines[at+1:]
	if end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## ") }); end >= 0 {
		lines = lines[:end]
	}
	return lines
}

// name is of a test, with those of subtests, and of the directory that it is in, if the page says so.
type name struct {
	test string
	subs []string
	in   string
}

// `TestX/sub` (pkg/y), where `…/other` stands for another subtest beside the last one.
var named = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*|…)((?:/[^`]+)?)`(?: \\(((?:pkg|test|cmd|internal|release)/[\\w/-]+)\\))?")

func namesIn(line string) []name {
	var names []name
	for _, m := range named.FindAllStringSubmatch(line, -1) {
		n := name{m[1], strings.Split(m[2], "/")[1:], m[3]}
		if n.test == "…" {
			if len(names) == 0 {
				continue
			}
			last := names[len(names)-1]
			n = name{last.test, append(slices.Clone(last.subs[:max(len(last.subs)-1, 0)]), n.subs...), cmp.Or(n.in, last.in)}
		}
		names = append(names, n)
	}
	return names
}

// missing says which part of a name no file of its directory has, or of any directory.
func (n name) missing(sources map[string]source) string {
	for dir, s := range sources {
		if s.tests[n.test] && (n.in == "" || n.in == dir) {
			for _, sub := range n.subs {
				if !slices.ContainsFunc(slices.Collect(keysBelow(sources, dir)), func(of string) bool { return sources[of].subs[sub] }) {
					return "there is no " + strconv.Quote(sub) + " of " + n.test + " in " + dir
				}
			}
			return ""
		}
	}
	return "there is no " + n.test + " in " + cmp.Or(n.in, "any directory")
}

// keysBelow returns a directory and those below it.
func keysBelow(sources map[string]source, dir string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for of := range sources {
			if (of == dir || strings.HasPrefix(of, dir+"/")) && !yield(of) {
				return
			}
		}
	}
}

// source is what the Go files of a directory call their tests and subtests.
type source struct{ tests, subs map[string]bool }

// sourcesIn returns the tests of the repository by directory.
func sourcesIn(t *testing.T) map[string]source {
	t.Helper()
	sources := map[string]source{}
	for _, top := range []string{"cmd", "internal", "pkg", "release", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if _, ok := sources[dir]; !ok {
				sources[dir] = source{map[string]bool{}, map[string]bool{}}
			}
			sources[dir].add(file, strings.HasSuffix(path, "_test.go"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sources
}

// add notes the tests of a file, if it has any, and its subtests.
func (s source) add(file *ast.File, tests bool) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && tests {
			s.tests[f.Name.Name] = true
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		s.subs[subtest(node)] = true
		return true
	})
}

// subtest is what a piece of Go calls a subtest: by the key of a table, by the field name
// of an entry, or in t.Run itself.
func subtest(node ast.Node) string {
	var e ast.Expr
	switch node := node.(type) {
	case *ast.KeyValueExpr:
		e = node.Key
		if id, ok := e.(*ast.Ident); ok && strings.EqualFold(id.Name, "name") {
			e = node.Value
		}
	case *ast.CallExpr:
		if f, ok := node.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && len(node.Args) == 2 {
			e = node.Args[0]
		}
	}
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}
