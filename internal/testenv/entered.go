package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// EntersVar is the environment variable that is "no" where a test of EnteredBy leaves out its one question, so
// that what it enters before is known.
const EntersVar = "LIMPET_ENTERS"

// EnteredBy returns the files of features that a test of this package enters only with its question. The
// platform and the tests are left out.
func EnteredBy(t *testing.T, test string) []string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "covered.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-cover", "-covermode=set", "-coverpkg=github.com/limpet-io/limpet/internal/...", "-o", binary)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	before, with := blocksOf(t, binary, test, "no"), blocksOf(t, binary, test, "yes")
	var files []string
	for block := range with {
		file, _, _ := strings.Cut(strings.TrimPrefix(block, "github.com/limpet-io/limpet/internal/"), ":")
		beside := strings.HasPrefix(file, "platform/") || strings.HasPrefix(file, "testenv/")
		if !before[block] && !beside && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// blocksOf runs a test, and returns the blocks of statements that it ran.
func blocksOf(t *testing.T, binary, test, enters string) map[string]bool {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	run := exec.CommandContext(t.Context(), binary, "-test.run=^"+test+"$", "-test.coverprofile="+profile)
	run.Env = append(os.Environ(), EntersVar+"="+enters)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", test, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for line := range strings.Lines(string(text)) { // file.go:1.2,3.4 statements count
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] != "0" {
			ran[fields[0]] = true
		}
	}
	return ran
}
