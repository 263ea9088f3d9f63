// Package component lists the Go modules that a binary was built from.
package component

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Binary is a Go binary with what it was built from.
type Binary struct {
	Path, Name string
	GoVersion  string
	// Main is the path of the module with the main package.
	Main    string
	Modules []Module
}

// Module is a dependency at one version.
type Module struct {
	Path, Version string
	// Sum is the hash of the module's content as in go.sum.
	Sum string
}

// Read reads the build information of a binary. The linker writes it, so that the list has
// the modules with code in the binary and no others.
func Read(path string) (Binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Binary{}, fmt.Errorf("read build information of %s: %w", path, err)
	}
	b := Binary{Path: path, Name: filepath.Base(path), GoVersion: info.GoVersion, Main: info.Main.Path}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		b.Modules = append(b.Modules, Module{Path: d.Path, Version: d.Version, Sum: d.Sum})
	}
	return b, nil
}

// Union returns the modules of all binaries, each once, in order.
func Union(all []Binary) []Module {
	var modules []Module
	for _, b := range all {
		modules = append(modules, b.Modules...)
	}
	slices.SortFunc(modules, func(a, b Module) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version)) })
	return slices.Compact(modules)
}

// Directories returns the directory of each module in the module cache, by the Go command at
// goCommand. A module that is not there is downloaded.
func Directories(ctx context.Context, goCommand string, modules []Module) (map[Module]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	cmd := exec.CommandContext(ctx, goCommand, args...)
	cmd.Stderr = os.Stderr
	out, failed := cmd.Output()
	found := map[string]string{}
	var errs []error
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir, Error string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, errors.Join(failed, fmt.Errorf("read the list of modules: %w", err))
		}
		found[m.Path+"@"+m.Version] = m.Dir
		if m.Error != "" {
			errs = append(errs, fmt.Errorf("module %s@%s is not in the module cache and cannot be downloaded: %s", m.Path, m.Version, m.Error))
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("find modules in the module cache: %w", errors.Join(append(errs, failed)...))
	}
	dirs := map[Module]string{}
	for _, m := range modules {
		if dirs[m] = found[m.Path+"@"+m.Version]; dirs[m] == "" {
			return nil, fmt.Errorf("module %s@%s is not in the module cache", m.Path, m.Version)
		}
	}
	return dirs, nil
}
