package ipamtool

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// table collects rows of cells and writes them as columns of text. text/tabwriter would do the same, and link 12 kB of
// code for other kinds of tables.
type table struct {
	indent string
	gap    int // blanks between columns
	rows   [][]string
	widths []int // of the columns, in characters
	line   []byte
}

// row adds a row that write writes.
func (t *table) row(cells ...string) {
	t.fit(cells)
	t.rows = append(t.rows, cells)
}

// fit makes the columns wide enough for a row, and its cells printable.
func (t *table) fit(cells []string) {
	for n, c := range cells {
		c = printable(c)
		cells[n] = c
		if n == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[n] = max(t.widths[n], utf8.RuneCountInString(c))
	}
}

// printable escapes what would control a terminal: names come from container runtimes.
func printable(s string) string {
	if ascii(s) || strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ascii reports whether a text has printable characters of a byte each.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// write writes all rows.
func (t *table) write(w io.Writer) error {
	var text strings.Builder // no writer of a strings.Builder fails
	for _, row := range t.rows {
		_ = t.writeRow(&text, row)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeRow writes a row that fit has seen. Nothing follows its last cell.
func (t *table) writeRow(w io.Writer, cells []string) error {
	t.line = append(t.line[:0], t.indent...)
	for n, c := range cells {
		t.line = append(t.line, c...)
		if n < len(cells)-1 {
			t.line = append(t.line, strings.Repeat(" ", t.widths[n]-utf8.RuneCountInString(c)+t.gap)...)
		}
	}
	_, err := w.Write(append(t.line, '\n'))
	return err
}
