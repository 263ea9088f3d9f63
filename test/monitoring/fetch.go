// Package monitoring tests the alerts and dashboards of deploy/ with a real Prometheus.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs are the paths of Prometheus and its tool.
type Programs struct{ Prometheus, Promtool string }

// CacheVar is the environment variable that may name another cache.
const CacheVar = "LIMPET_CACHE"

// Cache returns the directory outside of the repository that keeps Prometheus: the named one, if any.
func Cache(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "limpet"), err
}

// Fetch returns Debian's Prometheus, unpacked in a directory of the cache. Nothing is installed,
// and no service starts. Only the first call for a cache needs apt-get, dpkg-deb and a network.
func Fetch(ctx context.Context, cache string) (Programs, error) {
	dir := filepath.Join(cache, "prometheus")
	p := Programs{filepath.Join(dir, "usr/bin/prometheus"), filepath.Join(dir, "usr/bin/promtool")}
	if p.complete() == nil {
		return p, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return p, fmt.Errorf("make cache: %w", err)
	}
	temp, err := os.MkdirTemp(cache, "prometheus-")
	if err != nil {
		return p, fmt.Errorf("make directory for Prometheus: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a left-over in the cache does no harm
	if err := unpack(ctx, temp); err != nil {
		return p, err
	}
	// Another process may have fetched it meanwhile. What is complete stays.
	if err := os.Rename(filepath.Join(temp, "root"), dir); err != nil && p.complete() != nil {
		if err := errors.Join(os.RemoveAll(dir), os.Rename(filepath.Join(temp, "root"), dir)); err != nil {
			return p, fmt.Errorf("keep Prometheus: %w", err)
		}
	}
	return p, p.complete()
}

// unpack downloads the package, whose signature apt checks, and unpacks it into temp/root.
func unpack(ctx context.Context, temp string) error {
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = temp
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("fetch Prometheus (Debian's package prometheus is needed): %s %v: %w\n%s", name, args, err, out)
		}
		return nil
	}
	if err := run("apt-get", "download", "-q", "prometheus"); err != nil {
		if err := errors.Join(run("apt-get", "update", "-q"), run("apt-get", "download", "-q", "prometheus")); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(temp, "prometheus_*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("fetch Prometheus: found the packages %v: %w", debs, errors.Join(err, os.ErrInvalid))
	}
	return run("dpkg-deb", "-x", debs[0], "root")
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
