// Package text prints the reports of package console for people.
package text

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
)

// Style is how a report is printed.
type Style struct {
	// Wide adds columns.
	Wide bool
	// Colour marks what is broken; only for terminals.
	Colour bool
	// Now is the time to which ages are relative.
	Now time.Time
}

// table prints rows below a heading, with aligned columns. Nothing is printed for no rows.
func table(w io.Writer, heading string, rows []string) {
	if len(rows) == 0 {
		return
	}
	columns := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(columns, heading)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.ReplaceAll(row, "\n", " ")) // a text of a tenant begins no row
	}
	columns.Flush()
}

// problems prints what needs attention, or that nothing does.
func problems(w io.Writer, s Style, found []console.Problem, none string) {
	if len(found) == 0 {
		fmt.Fprintln(w, none)
		return
	}
	fmt.Fprintf(w, "Needs attention (%d):\n", len(found))
	for _, p := range found {
		fmt.Fprintf(w, "  %s %s: %s: %s\n", s.mark(p.Severity), p.Object, p.Reason, p.Message)
		if p.Remedy != "" {
			fmt.Fprintf(w, "      remedy: %s\n", p.Remedy)
		}
	}
}

// Sequences that colour a text in red or yellow, until the last one.
const broken, warned, ended = "\x1b[31m", "\x1b[33m", "\x1b[0m"

// mark returns a severity, in red or yellow on a terminal.
func (s Style) mark(severity console.Severity) string {
	switch {
	case !s.Colour:
		return string(severity)
	case severity == console.Broken:
		return broken + string(severity) + ended
	}
	return warned + string(severity) + ended
}

// unread says what the report does not know.
func unread(w io.Writer, kinds []facts.Unread) {
	for _, u := range kinds {
		fmt.Fprintf(w, "not read: %s: %s\n", u.Kind, u.Reason)
	}
}

// or returns a text, or a hyphen for none.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
