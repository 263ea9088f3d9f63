// Package programs finds the programs of other projects that tests start: the test API
// server, kubectl and the published CNI plugins. The list in programs.txt names them all.
// The Makefile links exactly these programs into a directory, and Find refuses any other
// name, so a program that only one machine has by chance is never used.
package programs

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Var is the environment variable that names the directory of the programs.
const Var = "LIMPET_PROGRAMS"

//go:embed programs.txt
var list string

// Names returns the listed programs, sorted.
func Names() []string {
	var names []string
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		names = append(names, strings.Fields(line)...)
	}
	slices.Sort(names)
	return names
}

// Find returns the path of a program in dir, which is the value of Var. The error says
// what to do when the program is not listed or not there.
func Find(dir, name string) (string, error) {
	if !slices.Contains(Names(), name) {
		return "", fmt.Errorf("find program %s: test/programs/programs.txt does not list it; add a line there", name)
	}
	if dir == "" {
		return "", fmt.Errorf("find program %s: %s is not set; run the tests with make test or make test-unit", name, Var)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find program %s (make test builds it): %w", name, err)
	}
	return path, nil
}

// All returns nil when dir holds every one of the named programs.
func All(dir string, names ...string) error {
	for _, name := range names {
		if _, err := Find(dir, name); err != nil {
			return err
		}
	}
	return nil
}
