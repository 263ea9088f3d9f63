package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

var errContents = errors.New("not what the component consists of")

// checkContents returns nil when dir holds exactly the component's programs. A program
// that is missing, empty or not executable, and any other entry, make the directory
// unusable: tests would depend on what an earlier run left there.
func checkContents(c component, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	var found []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("look at %s: %w", filepath.Join(dir, e.Name()), err)
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || info.Size() == 0 {
			return fmt.Errorf("%s in %s is no program: %w", e.Name(), dir, errContents)
		}
		found = append(found, e.Name())
	}
	if want := slices.Sorted(slices.Values(c.programs)); !slices.Equal(found, want) {
		return fmt.Errorf("%s holds %v instead of %v: %w", dir, found, want, errContents)
	}
	return nil
}

// Programs returns the names of the programs of each component.
func Programs() map[string][]string {
	all := map[string][]string{}
	for _, c := range components {
		all[c.name] = slices.Sorted(slices.Values(c.programs))
	}
	return all
}
