package measure

import (
	"strings"
	"unicode/utf8"
)

// lineWidth is the longest line of prose in characters, as in the other documents.
const lineWidth = 120

// Fold breaks the long prose lines of a Markdown document. Rows of tables stay whole, and
// the rest of a list item is indented.
func Fold(document string) string {
	var w strings.Builder
	for line := range strings.Lines(document) {
		if strings.HasPrefix(line, "|") || utf8.RuneCountInString(line) <= lineWidth {
			w.WriteString(line)
			continue
		}
		indent := ""
		if strings.HasPrefix(line, "* ") {
			indent = "  "
		}
		w.WriteString(foldLine(line, indent))
	}
	return w.String()
}

// foldLine breaks one line between words.
func foldLine(line, indent string) string {
	var w strings.Builder
	width := 0
	for i, word := range strings.Fields(line) {
		size := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+size > lineWidth:
			w.WriteString("\n" + indent)
			width = len(indent)
		default:
			w.WriteString(" ")
			width++
		}
		w.WriteString(word)
		width += size
	}
	return w.String() + "\n"
}
