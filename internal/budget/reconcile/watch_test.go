package reconcile_test

import (
	"fmt"
	"slices"
	"testing"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// A write of the book is about the pods whose entries came, changed or ended, and not about all others.
func TestAWriteOfTheBookIsAboutFewPods(t *testing.T) {
	list := func(uses ...string) (all limpetv1alpha1.DisruptionEntries) {
		for i, use := range uses {
			if use != "" {
				all = append(all, limpetv1alpha1.DisruptionEntry{Pod: fmt.Sprint("web-", i), Use: use})
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		before, after limpetv1alpha1.DisruptionEntries
		want          string
	}{
		"nothing":           {list("Gone", "Changed"), list("Gone", "Changed"), "[]"},
		"one that came":     {list("Gone"), list("Gone", "Gone"), "[web-1]"},
		"one that ended":    {list("Gone", "Gone"), list("", "Gone"), "[web-0]"},
		"one that changed":  {list("Changed", "Gone"), list("Restarting", "Gone"), "[web-0]"},
		"all of a new book": {nil, list("Gone", "Gone"), "[web-0 web-1]"},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []string
			for _, e := range controller.Changes(c.before, c.after) {
				pods = append(pods, e.Pod)
			}
			slices.Sort(pods)
			if got := fmt.Sprint(slices.Compact(pods)); got != c.want {
				t.Errorf("pods %s, want %s", got, c.want)
			}
		})
	}
}
