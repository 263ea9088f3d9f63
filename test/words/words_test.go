package words

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// generated are the documents that a program writes.
var generated = []string{"benchmarks.md", "benchmarks-pin.md", "benchmarks-budgets.md", "benchmarks-spread.md", "benchmarks-rebuild.md", "chaos.md"}

// TestDocumentsAreWrittenInPlainWords checks every document for phrases, long lines and
// long sentences.
func TestDocumentsAreWrittenInPlainWords(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin"):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md" || slices.Contains(generated, name):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		for i, line := range strings.Split(string(data), "\n") {
			for _, complaint := range phrasesIn(withoutCode(line)) {
				t.Errorf("%s:%d: %s", path, i+1, complaint)
			}
		}
		for _, complaint := range slices.Concat(longLines(string(data)), longSentences(string(data))) {
			t.Errorf("%s:%s", path, complaint)
		}
		return nil
	})
	if err != nil || checked < 15 {
		t.Fatal(checked, err)
	}
}

func TestPhrasesIn(t *testing.T) {
	for text, want := range map[string]int{
		"Nobody waits, and it starts anew.": 2,
		"the canewood chair":                0,
		"it waits for ever":                 1,
		"ever since":                        0,
	} {
		if got := phrasesIn(text); len(got) != want {
			t.Errorf("phrasesIn(%q) = %q, want %d", text, got, want)
		}
	}
}

func TestLongProse(t *testing.T) {
	long := strings.Repeat("word ", 31)
	tests := map[string]struct {
		document         string
		lines, sentences int
	}{
		"a long line":                      {long, 1, 1},
		"two sentences":                    {strings.Repeat("word ", 20) + "end.\n" + strings.Repeat("word ", 20), 0, 0},
		"one sentence over two lines":      {strings.Repeat("word ", 20) + "\n" + strings.Repeat("word ", 20), 0, 1},
		"list items are sentences":         {"* " + strings.Repeat("word ", 20) + "\n* " + strings.Repeat("word ", 20), 0, 0},
		"a table":                          {"| " + long + " |", 0, 0},
		"a code block":                     {"    " + long, 0, 0},
		"a fenced block":                   {"```\n" + long + "\n```", 0, 0},
		"a line that is one link":          {"* [" + long + "](https://example.com)", 0, 1},
		"a destination has no words":       {"[a](" + strings.Repeat("x/", 40) + ")", 0, 0},
		"a period inside brackets ends it": {strings.Repeat("word ", 20) + "(end.)\n" + strings.Repeat("word ", 20), 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			lines, sentences := longLines(test.document), longSentences(test.document)
			if len(lines) != test.lines || len(sentences) != test.sentences {
				t.Errorf("got %q and %q, want %d and %d", lines, sentences, test.lines, test.sentences)
			}
		})
	}
}
