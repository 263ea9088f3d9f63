// Package text prints the reports of package console for people.
package text

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

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

// oneLine takes from a text of a tenant what begins a line or a colour.
var oneLine = strings.NewReplacer("\n", " ", "\x1b", string(unicode.ReplacementChar))

// line prints one line.
func line(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, oneLine.Replace(fmt.Sprintf(format, args...)))
}

// table prints rows below a heading, with aligned columns. Nothing is printed for no rows.
func table(w io.Writer, heading string, rows []string) {
	if len(rows) == 0 {
		return
	}
	columns := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(columns, heading)
	for _, row := range rows {
		line(columns, "%s", row)
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
		fmt.Fprintf(w, "  %s ", s.mark(p.Severity))
		line(w, "%s: %s: %s", p.Object, p.Reason, p.Message)
		if p.Remedy != "" {
			line(w, "      remedy: %s", p.Remedy)
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
		line(w, "not read: %s: %s", u.Kind, u.Reason)
	}
}

// or returns a text, or a hyphen for none.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
