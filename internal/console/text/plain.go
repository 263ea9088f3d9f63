package text

import (
	"io"
	"strings"
	"unicode"
)

// escapes takes from a text what a terminal would obey, but for the colours of Style.
var escapes = func() *strings.Replacer {
	pairs := []string{broken, broken, warned, warned, ended, ended}
	for r := rune(0); r <= '\u2069'; r++ { // the last one that changes the direction of a text
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			pairs = append(pairs, string(r), string(unicode.ReplacementChar))
		}
	}
	return strings.NewReplacer(pairs...)
}()

// Plain is a writer for terminals. Tenants write texts of events, conditions and names.
type Plain struct{ To io.Writer }

// Write writes text, which has whole characters.
func (p Plain) Write(text []byte) (int, error) {
	_, err := escapes.WriteString(p.To, strings.ToValidUTF8(string(text), string(unicode.ReplacementChar)))
	return len(text), err //nolint:wrapcheck // as the writer returns it
}
