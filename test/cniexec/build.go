package cniexec

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// Build compiles limpet-ipam into dir, and the published plugins of the versions in
// test/plugin/cniplugins too, unless upstream says where they are already. The
// root is that of the repository.
func Build(ctx context.Context, root, dir, upstream string) (Binaries, error) {
	b := Binaries{Limpet: filepath.Join(dir, "limpet-ipam"), Upstream: upstream}
	if err := goBuild(ctx, root, b.Limpet, "./cmd/ipam-plugin"); err != nil {
		return b, err
	}
	if upstream == "" {
		b.Upstream = dir
		return b, goBuild(ctx, filepath.Join(root, "test", "plugin", "cniplugins"), dir+"/", "tool")
	}
	return b, nil
}

func goBuild(ctx context.Context, dir, to, what string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, what)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
