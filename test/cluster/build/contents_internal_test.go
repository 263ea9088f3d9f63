package build

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestContentsOfTheCacheAreChecked(t *testing.T) {
	c := component{name: "pair", programs: []string{"one", "two"}}
	program := func(name string, mode fs.FileMode, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), mode) }
	}
	for name, tc := range map[string]struct {
		change func(dir string) error
		want   error
	}{
		"just its programs":            {func(string) error { return nil }, nil},
		"a program is missing":         {func(dir string) error { return os.Remove(filepath.Join(dir, "one")) }, errContents},
		"another program is there too": {program("three", 0o755, "x"), errContents},
		"a program is empty":           {func(dir string) error { return os.Truncate(filepath.Join(dir, "two"), 0) }, errContents},
		"a program is not executable":  {func(dir string) error { return os.Chmod(filepath.Join(dir, "two"), 0o644) }, errContents},
		"a link":                       {func(dir string) error { return os.Symlink("one", filepath.Join(dir, "three")) }, errContents},
		"no directory":                 {os.RemoveAll, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, p := range c.programs {
				if err := program(p, 0o755, "x")(dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := tc.change(dir); err != nil {
				t.Fatal(err)
			}
			if err := checkContents(c, dir); !errors.Is(err, tc.want) {
				t.Errorf("checkContents: %v, want %v", err, tc.want)
			}
		})
	}
}

// limpet-cluster assets finds the component of a program by its name alone.
func TestProgramsAreNamedOnce(t *testing.T) {
	seen := map[string]string{}
	for component, programs := range Programs() {
		if len(programs) == 0 {
			t.Errorf("%s has no programs", component)
		}
		for _, p := range programs {
			if other, taken := seen[p]; taken {
				t.Errorf("%s is a program of %s and of %s", p, component, other)
			}
			seen[p] = component
		}
	}
}
