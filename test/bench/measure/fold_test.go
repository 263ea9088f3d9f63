package measure_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// TestFold breaks long prose and list items, and leaves tables and short lines unchanged.
func TestFold(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("wörd ", 60))
	table := "| " + words + " |\n"
	got := measure.Fold("# Title\n\n" + words + "\n* " + words + "\n" + table)
	if !strings.HasPrefix(got, "# Title\n\nwörd") || !strings.HasSuffix(got, table) {
		t.Errorf("got %q", got)
	}
	if n := strings.Count(got, "wörd"); n != 180 {
		t.Errorf("%d words, want 180", n)
	}
	if n := strings.Count(got, "\n  wörd"); n != 2 {
		t.Errorf("%d indented lines, want 2 of the list item:\n%s", n, got)
	}
	for line := range strings.Lines(strings.TrimSuffix(got, table)) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 120 {
			t.Errorf("long line %q", line)
		}
	}
}
