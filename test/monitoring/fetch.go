// Package monitoring tests the alerts and dashboards of deploy/ with a real Prometheus.
package monitoring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/limpet-io/limpet/test/debian"
)

// Programs are the paths of Prometheus and its tool.
type Programs struct{ Prometheus, Promtool string }

// Fetch returns Debian's Prometheus, unpacked in a directory of the cache.
func Fetch(ctx context.Context, cache string) (Programs, error) {
	dir, err := debian.Program{Name: "prometheus", Packages: []string{"prometheus"}, Works: func(_ context.Context, dir string) error {
		return in(dir).complete()
	}}.Fetch(ctx, cache)
	return in(dir), err
}

func in(dir string) Programs {
	return Programs{filepath.Join(dir, "usr/bin/prometheus"), filepath.Join(dir, "usr/bin/promtool")}
}

// complete returns nil when both programs are there.
func (p Programs) complete() error {
	for _, path := range []string{p.Prometheus, p.Promtool} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("find Prometheus: %w", err)
		}
		if info.Mode().Perm()&0o111 == 0 || info.Size() == 0 {
			return fmt.Errorf("%s is no program: %w", path, os.ErrInvalid)
		}
	}
	return nil
}
