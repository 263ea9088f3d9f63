package cniexec

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/test/programs"
)

// Binaries are the plugins that a test runs.
type Binaries struct {
	// Limpet is limpet-ipam, built from this checkout as a release is.
	Limpet string
	// Upstream is the directory of the published plugins, host-local among them.
	Upstream string
}

// HostLocal returns the path of the published host-local.
func (b Binaries) HostLocal() string { return filepath.Join(b.Upstream, "host-local") }

// Path returns CNI_PATH for them.
func (b Binaries) Path() string { return filepath.Dir(b.Limpet) + ":" + b.Upstream }

// published are the plugins that Upstream holds.
var published = []string{"bridge", "host-local", "ipvlan", "macvlan", "ptp"}

// Build compiles limpet-ipam into dir. The published plugins lie in upstream, the value
// of programs.Var; when it is empty, Build compiles them too, in the versions of
// test/plugin/cniplugins. root is the top directory of the repository.
func Build(ctx context.Context, root, dir, upstream string) (Binaries, error) {
	b, err := BuildLimpet(ctx, root, dir)
	if err != nil {
		return b, err
	}
	b.Upstream = upstream
	if upstream == "" {
		b.Upstream = dir
		return b, goBuild(ctx, filepath.Join(root, "test", "plugin", "cniplugins"), dir+"/", "tool")
	}
	return b, programs.All(upstream, published...)
}

// BuildLimpet compiles limpet-ipam alone into dir, for tests that run no other plugin.
func BuildLimpet(ctx context.Context, root, dir string) (Binaries, error) {
	b := Binaries{Limpet: filepath.Join(dir, "limpet-ipam")}
	return b, goBuild(ctx, root, b.Limpet, "./cmd/ipam-plugin")
}

// notInlined are the packages in the plugin that are compiled without inlining, as in the Makefile.
var notInlined = []string{"github.com/limpet-io/limpet/...", "github.com/containernetworking/...", "log", "log/slog", "flag", "net", "encoding/json"}

func goBuild(ctx context.Context, dir, to, what string, env ...string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", to}
	for _, p := range notInlined {
		args = append(args, "-gcflags="+p+"=-l")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, what)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
