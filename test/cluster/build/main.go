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

// rootMain is the package main of a build module: its text, or the file main.go at the root of another module. That file
// is compiled without some of its blank imports, which cannot be had.
type rootMain struct {
	text    string
	module  string
	without []string
}

// coreDNSMain is CoreDNS with the plugins that the cluster's Corefile names. All of them would take minutes to build.
const coreDNSMain = `package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
`

// write puts the file into a build module.
func (m *rootMain) write(ctx context.Context, src string) error {
	if m.text != "" {
		return os.WriteFile(filepath.Join(src, "main.go"), []byte(m.text), 0o644)
	}
	dir, err := moduleDir(ctx, src, m.module)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		return fmt.Errorf("read the program of %s: %w", m.module, err)
	}
	rest, err := withoutImports(string(text), m.without)
	if err != nil {
		return fmt.Errorf("change the program of %s: %w", m.module, err)
	}
	return os.WriteFile(filepath.Join(src, "main.go"), []byte(rest), 0o644)
}

// moduleDir returns where the source of a module is that a build module requires.
func moduleDir(ctx context.Context, src, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, tail(string(out), 5))
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("read where %s is: %w", module, err)
	}
	return downloaded.Dir, nil
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
