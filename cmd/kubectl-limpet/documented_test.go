package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// written is a command as the pages have it: up to the end of the line, or of the code in a sentence.
var written = regexp.MustCompile("kubectl limpet ([a-z][^`\n;#|]*)")

// TestEveryWrittenCommandExists parses each command of kubectl limpet in the pages and the chart, with its flags. Names
// such as POD stand for arguments.
func TestEveryWrittenCommandExists(t *testing.T) {
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/chart/templates/*"} {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(pages), err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil || filepath.Base(page) == "reference.md" {
				continue // a directory, or made from the commands
			}
			for _, m := range written.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\|`, " "), -1) {
				found++
				root := newRoot(surroundings{out: io.Discard, err: io.Discard, now: time.Now})
				cmd, args, err := root.Find(strings.Fields(strings.NewReplacer("…", "", "=NAME", "").Replace(m[1])))
				if err == nil {
					err = cmd.ParseFlags(args)
				}
				if err != nil || cmd == root {
					t.Errorf("%s: kubectl limpet %s: %v", page, m[1], err)
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d commands: the test tests little", found)
	}
}
