package words

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// longestLine is the number of characters that a line of prose may have.
	longestLine = 120
	// longestSentence is the number of words that a sentence may have.
	longestSentence = 30
)

// withoutCode returns a line of a document without its code spans and link destinations.
func withoutCode(line string) string {
	return regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)").ReplaceAllString(line, "]")
}

// phrasesIn lists the banned phrases of a text with the better ones, in a fixed order.
func phrasesIn(text string) []string {
	var found []string
	text = " " + strings.Join(regexp.MustCompile(`[\pL\pN'?-]+`).FindAllString(strings.ToLower(text), -1), " ") + " "
	for _, phrase := range slices.Sorted(maps.Keys(phrases)) {
		if strings.Contains(text, " "+phrase+" ") {
			found = append(found, fmt.Sprintf("phrase %q: better: %s", phrase, phrases[phrase]))
		}
	}
	return found
}

// line is a line of prose in a document.
type line struct {
	number int
	text   string
	starts bool // a new paragraph or list item
}

// prose returns the lines of a document outside code, tables and headings.
func prose(document string) []line {
	var lines []line
	fenced, starts := false, true
	n := 0
	for text := range strings.Lines(document) {
		n++
		text = strings.TrimRight(text, "\n")
		trimmed := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced, starts = !fenced, true
		case fenced, strings.HasPrefix(text, "    "):
			starts = true
		case trimmed == "", strings.HasPrefix(text, "#"), strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "<!--"):
			starts = true
		default:
			item := regexp.MustCompile(`^([*+-]|\d+\.) `).MatchString(trimmed)
			lines = append(lines, line{n, trimmed, starts || item})
			starts = false
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

// longSentences lists the sentences of prose that have too many words.
func longSentences(document string) []string {
	var found []string
	sentence, from := []string{}, 0
	end := func() {
		if len(sentence) > longestSentence {
			found = append(found, fmt.Sprintf("%d: sentence of %d words, more than %d: %s …",
				from, len(sentence), longestSentence, strings.Join(sentence[:6], " ")))
		}
		sentence = nil
	}
	link := regexp.MustCompile(`\]\([^)]*\)`)
	for _, l := range prose(document) {
		if l.starts {
			end()
		}
		for word := range strings.FieldsSeq(link.ReplaceAllString(l.text, "]")) {
			if len(sentence) == 0 {
				from = l.number
			}
			if strings.ContainsFunc(word, isLetter) {
				sentence = append(sentence, word)
			}
			if strings.ContainsAny(last(strings.TrimRight(word, "*`)]\"")), ".?!:;") {
				end()
			}
		}
	}
	end()
	return found
}

func isLetter(r rune) bool { return r != '*' && r != '|' && r != '-' && r != '–' }

func last(word string) string {
	_, size := utf8.DecodeLastRuneInString(word)
	return word[len(word)-size:]
}
