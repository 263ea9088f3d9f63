package docs_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestTheReadmeNamesTheMisses checks that users who read no page of benchmarks learn which targets
// are missed.
func TestTheReadmeNamesTheMisses(t *testing.T) {
	readme := strings.Join(section(t, "README.md", "## Missed targets"), "\n")
	pages, err := filepath.Glob(filepath.Join(root, "docs/operate/benchmarks*.md"))
	if err != nil || len(pages) < 6 {
		t.Fatalf("found %d pages of benchmarks: %v", len(pages), err)
	}
	for _, path := range pages {
		page := "docs/operate/" + filepath.Base(path)
		if !strings.Contains(readme, "("+page+")") {
			t.Errorf("README.md does not name %s", page)
		}
		for line := range strings.Lines(read(t, page)) {
			cells := strings.Split(line, "|")
			if !strings.Contains(line, "| **missed** |") || len(cells) < 5 {
				continue
			}
			if what := strings.TrimSpace(cells[1]); !strings.Contains(readme, what) {
				t.Errorf("%s misses the target %q, which README.md does not name", page, what)
			}
		}
	}
}
