// Package debian keeps programs of Debian in the cache of the tests. Nothing is installed, and no service starts.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CacheVar is the environment variable that may name another cache.
const CacheVar = "LIMPET_CACHE"

// Cache returns the directory outside of the repository that keeps programs: the named one, if any.
func Cache(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "limpet"), err
}

// Program is a program in a directory of the cache.
type Program struct {
	Name     string // of the directory
	Packages []string
	// Libraries says that packages which these need, and which the machine lacks, are unpacked too.
	Libraries bool
	// Works returns nil if the program can be used.
	Works func(ctx context.Context, dir string) error
}

// Fetch returns the directory. Only the first call for a cache needs apt-get, dpkg-deb and a network.
func (p Program) Fetch(ctx context.Context, cache string) (dir string, err error) {
	dir = filepath.Join(cache, p.Name)
	if p.Works(ctx, dir) == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return dir, fmt.Errorf("make cache: %w", err)
	}
	temp, err := os.MkdirTemp(cache, p.Name+"-")
	if err != nil {
		return dir, fmt.Errorf("make directory for %s: %w", p.Name, err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a left-over in the cache does no harm
	if err := p.unpack(ctx, temp); err != nil {
		return dir, fmt.Errorf("fetch %s (Debian's packages %v are needed): %w", p.Name, p.Packages, err)
	}
	// Another process may have fetched it meanwhile. What works stays.
	root := filepath.Join(temp, "root")
	if err := os.Rename(root, dir); err != nil && p.Works(ctx, dir) != nil {
		if err := errors.Join(os.RemoveAll(dir), os.Rename(root, dir)); err != nil {
			return dir, fmt.Errorf("keep %s: %w", p.Name, err)
		}
	}
	return dir, p.Works(ctx, dir)
}

// unpack downloads the packages, whose signatures apt checks, and unpacks them into temp/root.
func (p Program) unpack(ctx context.Context, temp string) error {
	if p.download(ctx, temp) != nil {
		_, err := run(ctx, temp, "apt-get", "update", "-q")
		if err == nil {
			err = p.download(ctx, temp)
		}
		if err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("found no packages: %w", errors.Join(err, os.ErrNotExist))
	}
	for _, deb := range debs {
		if _, err := run(ctx, temp, "dpkg-deb", "-x", deb, "root"); err != nil {
			return err
		}
	}
	return nil
}

func (p Program) download(ctx context.Context, temp string) error {
	names := p.Packages
	if p.Libraries { // the simulation lists what an installation would add
		plan, err := run(ctx, temp, "apt-get", append([]string{"install", "--simulate", "--reinstall", "--no-install-recommends"}, p.Packages...)...)
		if err != nil {
			return err
		}
		names = nil
		for line := range strings.Lines(plan) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
				names = append(names, fields[1])
			}
		}
	}
	_, err := run(ctx, temp, "apt-get", append([]string{"download", "-q"}, names...)...)
	return err
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return string(out), nil
}
