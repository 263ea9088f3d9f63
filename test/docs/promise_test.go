// Package docs_test keeps the documents honest: a test that they name exists, and each
// row of a table of promises names one.
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

// promises are the sections of documents that say what happens and which test fails where
// it does not.
var promises = map[string]struct {
	page    string
	heading string // of the section; the whole page without
	in      string // directory of tests of which nothing else is said
	rows    int    // at the least
}{
	"hazards":                 {"docs/operate/hazards.md", "", "internal/cni", 40},
	"what users see at edges": {"docs/operate/edges.md", "## What users see", "internal/controller/pin", 17},
	"large clusters":          {"docs/operate/edges.md", "## Large clusters", "internal/agent/show", 7},
	"what limpet-ipam does":   {"docs/operate/edges.md", "## What limpet-ipam does", "internal/cni", 6},
	"states of a node":        {"docs/operate/node-states.md", "", "test/e2e", 9},
	"what OpenKruise lacks":   {"docs/use/openkruise.md", "## What OpenKruise's PersistentPodState lacks, and what proves it here", "internal/controller/pin", 10},
	"what OpenKruise does": {
		"docs/use/openkruise.md", "## What OpenKruise with its patched host-local was measured to do", "test/e2e", 16,
	},
	"budgets of OpenKruise":      {"docs/use/openkruise.md", "## Budgets", "internal/webhook/validate", 8},
	"spreads of OpenKruise":      {"docs/use/openkruise.md", "## Spreads", "internal/webhook/validate", 18},
	"rules of budgets":           {"docs/use/openkruise.md", "## Rules of PodUnavailableBudget", "internal/webhook/guard", 24},
	"what budgets lack":          {"docs/use/openkruise.md", "## What OpenKruise's PodUnavailableBudget lacks", "internal/webhook/guard", 11},
	"ways of going":              {"docs/use/openkruise.md", "## Ways in which pods go", "internal/webhook/guard", 14},
	"rules of spreads":           {"docs/use/openkruise.md", "## Rules of WorkloadSpread", "internal/webhook/admit", 14},
	"what spreads lacked":        {"docs/use/openkruise.md", "## Where WorkloadSpread fell short", "internal/webhook/admit", 5},
	"beside OpenKruise":          {"docs/use/openkruise.md", "### What goes on beside OpenKruise", "internal/webhook/admit", 6},
	"claims of the threat model": {"docs/operate/threat-model.md", "## Claims and their tests", "", 19},
}

func TestEveryPromiseHasItsTest(t *testing.T) {
	sources := map[string]source{}
	for name, p := range promises {
		t.Run(name, func(t *testing.T) {
			lines, rows := section(t, p.page, p.heading), 0
			for i, line := range lines {
				names := namesIn(line, p.in)
				for _, n := range names {
					if _, ok := sources[n.in]; !ok {
						sources[n.in] = sourceOf(t, n.in)
					}
					n.check(t, sources[n.in])
				}
				if !strings.HasPrefix(line, "| ") || strings.HasPrefix(lines[min(i+1, len(lines)-1)], "|--") {
					continue // no row, or a header
				}
				rows++
				if len(names) == 0 {
					t.Errorf("no test is named for: %s", line)
				}
			}
			if rows < p.rows {
				t.Errorf("found %d rows, want %d: this tests little", rows, p.rows)
			}
		})
	}
}

// TestEveryTestOfSecurityExists looks for the tests that the page names. The directory of a test stands after it, or after
// a later test of its line.
func TestEveryTestOfSecurityExists(t *testing.T) {
	sources, found := map[string]source{}, 0
	for line := range strings.Lines(read(t, "docs/operate/security.md")) {
		names := namesIn(line, "")
		in := ""
		for _, n := range slices.Backward(names) {
			if n.in = cmp.Or(n.in, in); n.in == "" {
				t.Errorf("no directory is named for %s", n.test)
				continue
			}
			in = n.in
			if _, ok := sources[in]; !ok {
				sources[in] = sourceOf(t, in)
			}
			n.check(t, sources[in])
			found++
		}
	}
	if found < 150 {
		t.Errorf("found %d tests: this tests little", found)
	}
}

// section returns the lines of a page under a heading.
func section(t *testing.T, page, heading string) []string {
	t.Helper()
	lines := strings.Split(read(t, page), "\n")
	if heading == "" {
		return lines
	}
	lines = lines[slices.Index(lines, heading)+1:]
	if end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## ") }); end >= 0 {
		lines = lines[:end]
	}
	return lines
}

// name is of a test, with those of subtests, and of the directory that it is in.
type name struct {
	test string
	subs []string
	in   string
}

// `TestX/sub` (pkg/y), where `…/other` stands for another subtest beside the last one.
var named = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w+|…)((?:/[^`]+)?)`(?: \\(((?:pkg|test|cmd|internal|release)/[\\w/-]+)\\))?")

func namesIn(line, in string) []name {
	var names []name
	for _, m := range named.FindAllStringSubmatch(line, -1) {
		n := name{m[1], strings.Split(m[2], "/")[1:], cmp.Or(m[3], in)}
		if n.test == "…" && len(names) > 0 {
			last := names[len(names)-1]
			n = name{last.test, append(slices.Clone(last.subs[:max(len(last.subs)-1, 0)]), n.subs...), last.in}
		}
		names = append(names, n)
	}
	return names
}

// check looks for the test in its directory, and for what names its subtests there or below.
func (n name) check(t *testing.T, in source) {
	t.Helper()
	if !in.tests[n.test] {
		t.Errorf("there is no %s in %s", n.test, n.in)
	}
	for _, s := range n.subs {
		if !in.subs[s] {
			t.Errorf("there is no %q of %s in %s", s, n.test, n.in)
		}
	}
}

// source is what the Go files of a directory call their tests, and those there and below
// their subtests.
type source struct{ tests, subs map[string]bool }

func sourceOf(t *testing.T, in string) source {
	t.Helper()
	s, dir := source{map[string]bool{}, map[string]bool{}}, filepath.Join(root, in)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && filepath.Dir(path) == dir && strings.HasSuffix(path, "_test.go") {
				s.tests[f.Name.Name] = true
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			s.subs[subtest(node)] = true
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
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
