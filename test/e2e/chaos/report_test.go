package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/chaos"
)

// TestPageKeepsOtherSeeds writes reports one after the other into one page.
func TestPageKeepsOtherSeeds(t *testing.T) {
	page := ""
	for i, seed := range []uint64{10, 2, 3, 2} {
		page = chaos.Page(page, chaos.Report{Seed: seed, Length: 15 * time.Minute, Version: "v" + string(rune('a'+i))})
	}
	var rows []string
	for line := range strings.Lines(page) {
		if fields := strings.Split(line, " | "); len(fields) > 5 {
			rows = append(rows, strings.Join(fields[:2], " "))
		}
	}
	if want := []string{"| seed version", "| 2 vd", "| 3 vc", "| 10 va", "| seed delete pods", "| 2 0", "| 3 0", "| 10 0"}; !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	if old := chaos.Page("| 4 | a row of another form |\n", chaos.Report{Seed: 1}); strings.Contains(old, "| 4 |") {
		t.Error("the page has a row of another form")
	}
}
