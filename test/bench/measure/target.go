package measure

import (
	"fmt"
	"strings"
)

// Target is a target value with the measured value.
type Target struct {
	What, Limit string
	Got         string
	Met         bool
	// Why explains a missed target.
	Why string
}

// Targets prints a table of targets, and below the table why targets were missed.
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
