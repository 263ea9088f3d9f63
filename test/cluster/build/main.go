package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rootMain is the file main.go at the root of a module. It is compiled without some of its blank imports,
// which cannot be had.
type rootMain struct {
	module  string
	without []string
}

// write puts the file into a build module that requires the module.
func (m *rootMain) write(ctx context.Context, src string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.module)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("download %s: %w: %s", m.module, err, tail(string(out), 5))
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return fmt.Errorf("read where %s is: %w", m.module, err)
	}
	text, err := os.ReadFile(filepath.Join(downloaded.Dir, "main.go"))
	if err != nil {
		return fmt.Errorf("read the program of %s: %w", m.module, err)
	}
	rest, err := withoutImports(string(text), m.without)
	if err != nil {
		return fmt.Errorf("change the program of %s: %w", m.module, err)
	}
	return os.WriteFile(filepath.Join(src, "main.go"), []byte(rest), 0o644)
}

// withoutImports removes blank imports. An import that is not there is an error.
func withoutImports(text string, paths []string) (string, error) {
	for _, p := range paths {
		before, after, found := strings.Cut(text, fmt.Sprintf("\t_ %q\n", p))
		if !found {
			return "", fmt.Errorf("it does not import %s", p)
		}
		text = before + after
	}
	return text, nil
}
