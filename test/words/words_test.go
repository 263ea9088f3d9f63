package words_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// generated is the directory of what programs write.
const generated = "runs"

// TestDocumentsAreWrittenInPlainWords checks every document for phrases and long lines.
func TestDocumentsAreWrittenInPlainWords(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin" || name == generated):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md" || name == "chaos.md":
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
		for _, complaint := range longLines(string(data)) {
			t.Errorf("%s:%s", path, complaint)
		}
		return nil
	})
	if err != nil || checked < 15 {
		t.Fatal(checked, err)
	}
}

// TestCodeIsWrittenInPlainWords checks the lines of code, of tests the comments alone.
func TestCodeIsWrittenInPlainWords(t *testing.T) {
	for _, room := range []string{"cmd", "internal", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || filepath.Base(filepath.Dir(path)) == "words" {
				return err // or the list itself
			}
			data, err := os.ReadFile(path)
			for i, line := range strings.Split(string(data), "\n") {
				if strings.HasSuffix(path, "_test.go") {
					_, line, _ = strings.Cut(line, "//")
				}
				for _, complaint := range phrasesIn(line) {
					t.Errorf("%s:%d: %s", path, i+1, complaint)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
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

func TestLongLines(t *testing.T) {
	long := strings.Repeat("word ", 31)
	tests := map[string]struct {
		document string
		lines    int
	}{
		"a long line":                {long, 1},
		"two lines":                  {strings.Repeat("word ", 20) + "end.\n" + strings.Repeat("word ", 20), 0},
		"a table":                    {"| " + long + " |", 0},
		"a code block":               {"    " + long, 0},
		"a fenced block":             {"```\n" + long + "\n```", 0},
		"a line that is one link":    {"* [" + long + "](https://example.com)", 0},
		"a destination has no words": {"[a](" + strings.Repeat("x/", 40) + ")", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if lines := longLines(test.document); len(lines) != test.lines {
				t.Errorf("got %q, want %d", lines, test.lines)
			}
		})
	}
}
