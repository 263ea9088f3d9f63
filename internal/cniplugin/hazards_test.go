package cniplugin_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryNameInHazardsExists looks for the tests that docs/hazards.md names, in the
// packages where it says they are.
func TestEveryNameInHazardsExists(t *testing.T) {
	doc, err := os.ReadFile("../../docs/hazards.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByPackage(t)
	named := regexp.MustCompile("`(Test\\w+)`(?: \\(((?:pkg|test|cmd|internal)/[\\w/-]+)\\))?").FindAllStringSubmatch(string(doc), -1)
	for _, m := range named {
		if in := cmp.Or(m[2], "internal/cniplugin"); !slices.Contains(tests[m[1]], in) {
			t.Errorf("there is no %s in %s, but in %v", m[1], in, tests[m[1]])
		}
	}
	if len(named) < 40 {
		t.Errorf("found %d names: the test tests little", len(named))
	}
}

// testsByPackage returns the directories in which a test of a name is.
func testsByPackage(t *testing.T) map[string][]string {
	t.Helper()
	found, name := map[string][]string{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	root := "../.."
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		dir, relErr := filepath.Rel(root, filepath.Dir(path))
		if relErr != nil {
			return relErr
		}
		for _, m := range name.FindAllStringSubmatch(string(source), -1) {
			found[m[1]] = append(found[m[1]], filepath.ToSlash(dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
