package words_test

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// longestLine is the number of characters that a line of prose may have.
const longestLine = 120

// withoutCode returns a line of a document without its code spans and link destinations.
func withoutCode(line string) string {
	return regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)").ReplaceAllString(line, "]")
}

var word = regexp.MustCompile(`[\pL\pN'?-]+`)

// phrasesIn lists the banned phrases of a text with the better ones.
func phrasesIn(text string) []string {
	var found []string
	text = " " + strings.Join(word.FindAllString(strings.ToLower(text), -1), " ") + " "
	for phrase, better := range phrases {
		if strings.Contains(text, " "+phrase+" ") {
			found = append(found, fmt.Sprintf("phrase %q: better: %s", phrase, better))
		}
	}
	return found
}

// line is a line of prose in a document.
type line struct {
	number int
	text   string
}

// prose returns the lines of a document outside code, tables and headings.
func prose(document string) []line {
	var lines []line
	fenced := false
	n := 0
	for text := range strings.Lines(document) {
		n++
		text = strings.TrimRight(text, "\n")
		trimmed := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(text, "    "):
		case trimmed == "", strings.HasPrefix(text, "#"), strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "<!--"):
		default:
			lines = append(lines, line{n, trimmed})
		}
	}
	return lines
}

// longLines lists the lines of prose that are too long. A line that is one link may be.
func longLines(document string) []string {
	var found []string
	link := regexp.MustCompile(`^([*+-] )?\[[^\]]*\]\([^)]*\)\S?$`)
	for _, l := range prose(document) {
		if n := utf8.RuneCountInString(l.text); n > longestLine && !link.MatchString(l.text) {
			found = append(found, fmt.Sprintf("%d: line of %d characters, more than %d", l.number, n, longestLine))
		}
	}
	return found
}
