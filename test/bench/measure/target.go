package measure

import (
	"fmt"
	"strings"
)

// Target is a number to reach, from docs/design/0001-architecture.md, beside the one that
// was measured.
type Target struct {
	What, Limit string
	Got         string
	Met         bool
	// Why says what is in the way when the target is missed.
	Why string
}

// Targets renders targets as a table, and below it what is in the way of those missed.
func Targets(all []Target) string {
	var w, why strings.Builder
	w.WriteString("| what | target | measured | |\n|---|---|---|---|\n")
	for _, t := range all {
		verdict := "met"
		if !t.Met {
			verdict = "**missed**"
			if t.Why != "" {
				fmt.Fprintf(&why, "* %s: %s\n", t.What, t.Why)
			}
		}
		fmt.Fprintf(&w, "| %s | %s | %s | %s |\n", t.What, t.Limit, t.Got, verdict)
	}
	if why.Len() > 0 {
		w.WriteString("\nWhy:\n\n" + why.String())
	}
	return w.String()
}
