package upgrade

import (
	"fmt"
	"os"
	"strings"
)

// Header is the head of a table of reports.
const Header = `| way | order | pods created and deleted | ADDs | failed | rebuilt pods that ask | kept | longest absence | lines of errors | last write after | violations |
|---|---|---|---|---|---|---|---|---|---|---|
`

// Row returns a report as a row of the table.
func (r Report) Row() string {
	way := "up"
	if !r.Up {
		way = "down"
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %.0f s | %d | %.0f s | %d |\n", way, r.Order, r.Pods, r.ADDs, r.Failed,
		r.Rebuilt, r.Kept, r.Longest.Seconds(), r.Errors, r.Settled.Seconds(), len(r.Violations))
}

// The table of a document is between these lines.
const (
	begin = "<!-- Made by make test-upgrade. -->\n\n"
	end   = "\n<!-- End of the table. -->\n"
)

// WriteTable replaces the table in a document.
func WriteTable(path, rows string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no table between %q and %q", path, begin, end)
	}
	if err := os.WriteFile(path, []byte(before+begin+Header+rows+end+after), 0o644); err != nil { //nolint:gosec // it is a document
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}
