package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the paths of all documents, relative to the root of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && name != ".github" && name != "." && strings.HasPrefix(name, ".") && path != root:
			return filepath.SkipDir // .git and editors' directories
		case entry.IsDir() && name == "bin":
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		rel, err := filepath.Rel(root, path)
		found = append(found, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestEveryLinkLeadsSomewhere follows each relative link to its file and to its heading.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], ":") {
				continue // to another site
			}
			found++
			file, heading, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s does not exist", page, m[1])
				continue
			}
			if heading != "" && !headings(read(t, target))[heading] {
				t.Errorf("%s: %s has no heading #%s", page, target, heading)
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d links: the test tests little", found)
	}
}

// headings returns the anchors that GitHub gives the headings of a page.
func headings(text string) map[string]bool {
	drop := regexp.MustCompile("[^a-z0-9 _-]")
	anchors := map[string]bool{}
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			title = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	return anchors
}

// TestEveryPageIsInTheIndex reads docs/README.md. Raw runs are linked from the pages that tell of them.
func TestEveryPageIsInTheIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pages(t) {
		rel, ok := strings.CutPrefix(page, "docs/")
		if ok && rel != "README.md" && filepath.Dir(rel) != "operate/runs" && !strings.Contains(index, "("+rel+")") {
			t.Errorf("docs/README.md has no link to %s", rel)
		}
	}
}
