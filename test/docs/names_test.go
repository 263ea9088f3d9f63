package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryNamedPathExists looks for the files and directories that documents name.
func TestEveryNamedPathExists(t *testing.T) {
	named := regexp.MustCompile("`((?:cmd|deploy|docs|internal|pkg|test|tools)/[^` ]+)`")
	found := 0
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			for _, path := range alternatives(m[1]) {
				path = strings.NewReplacer("NNNN-name.md", "*", "…", "*").Replace(path)
				matches, err := filepath.Glob(filepath.Join(root, path))
				if err != nil || len(matches) == 0 {
					t.Errorf("%s: %s does not exist", page, path)
				}
				found++
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d paths: the test tests little", found)
	}
}

// alternatives returns the paths that one with {a,b} stands for.
func alternatives(path string) []string {
	before, rest, ok := strings.Cut(path, "{")
	names, after, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return []string{path}
	}
	var all []string
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, before+name+after)
	}
	return all
}

// TestReadingTourExists looks for the functions that the README names, each after its file.
func TestReadingTourExists(t *testing.T) {
	_, tour, ok := strings.Cut(read(t, "README.md"), "## Reading the source\n")
	if !ok {
		t.Fatal("README.md has no reading tour")
	}
	found := 0
	for step := range strings.Lines(tour) {
		dir := ""
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(step, -1) {
			switch name := m[1]; {
			case strings.Contains(name, "/"):
				dir = filepath.Dir(name) // TestEveryNamedPathExists looks for it
			case strings.HasSuffix(name, ".go"):
				if _, err := os.Stat(filepath.Join(root, dir, name)); err != nil {
					t.Error(err)
				}
			case !functionsOf(t, dir)[name]:
				t.Errorf("%s has no function %s", dir, name)
			default:
				found++
			}
		}
	}
	if found < 6 {
		t.Errorf("found %d functions: the test tests little", found)
	}
}

// functionsOf returns the functions and methods that the files of a directory declare.
func functionsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				found[receiver(f)+f.Name.Name] = true
			}
		}
	}
	return found
}

// receiver returns "Plugin." for a method of Plugin or *Plugin, and "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// TestCompatibilityNamesWhatIsBuilt compares it with the components of the test cluster.
func TestCompatibilityNamesWhatIsBuilt(t *testing.T) {
	page := read(t, "docs/operate/compatibility.md")
	versions := regexp.MustCompile(`(\w+)Version += "v([\d.]+)"`).FindAllStringSubmatch(read(t, "test/cluster/build/components.go"), -1)
	for _, m := range versions {
		if !strings.Contains(page, m[2]) {
			t.Errorf("docs/operate/compatibility.md does not name %s %s", m[1], m[2])
		}
	}
	if len(versions) < 4 {
		t.Errorf("found %d versions: the test tests little", len(versions))
	}
}

// TestEveryMakeTargetExists looks for the targets of make that documents name as code.
func TestEveryMakeTargetExists(t *testing.T) {
	makefile := "\n" + read(t, "Makefile")
	named := regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z0-9-]*(?: [a-z][a-z0-9-]*)*)")
	found := 0
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			for target := range strings.FieldsSeq(m[1]) {
				found++
				if !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("%s: the Makefile has no target %s", page, target)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d targets: the test tests little", found)
	}
}
