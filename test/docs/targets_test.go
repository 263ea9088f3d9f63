package docs_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchmarksNameTheMisses checks that users who read no raw run learn which targets are missed.
func TestBenchmarksNameTheMisses(t *testing.T) {
	page := strings.Join(section(t, "docs/operate/benchmarks.md", "## Missed targets"), "\n")
	runs := 0
	for _, path := range pages(t) {
		if filepath.Dir(path) != "docs/operate/runs" {
			continue
		}
		targets := false
		for line := range strings.Lines(read(t, path)) {
			cells := strings.Split(line, "|")
			targets = targets || strings.Contains(line, "| target |")
			if !strings.Contains(line, "| **missed** |") || len(cells) < 5 {
				continue
			}
			if what := strings.TrimSpace(cells[1]); !strings.Contains(page, what) {
				t.Errorf("%s misses the target %q, which docs/operate/benchmarks.md does not name", path, what)
			}
		}
		if !targets {
			continue // no benchmark
		}
		runs++
		if !strings.Contains(page, "(runs/"+filepath.Base(path)+")") {
			t.Errorf("docs/operate/benchmarks.md has no link to %s", path)
		}
	}
	if runs < 6 {
		t.Errorf("found %d runs of benchmarks", runs)
	}
}
