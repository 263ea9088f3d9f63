// Package browser runs a real browser without a screen.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Browser is an unpacked Chromium with the libraries that the machine lacks.
type Browser struct{ dir string }

// Fetch returns Debian's Chromium without a screen, unpacked in a directory of the cache. Nothing is
// installed. Only the first call for a cache needs apt-get, dpkg-deb and a network.
func Fetch(ctx context.Context, cache string) (Browser, error) {
	b := Browser{filepath.Join(cache, "chromium")}
	if b.works(ctx) == nil {
		return b, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return b, fmt.Errorf("make cache: %w", err)
	}
	temp, err := os.MkdirTemp(cache, "chromium-")
	if err != nil {
		return b, fmt.Errorf("make directory for Chromium: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a left-over in the cache does no harm
	if err := unpack(ctx, temp); err != nil {
		return b, err
	}
	// Another process may have fetched it meanwhile. What works stays.
	if err := os.Rename(filepath.Join(temp, "root"), b.dir); err != nil && b.works(ctx) != nil {
		if err := errors.Join(os.RemoveAll(b.dir), os.Rename(filepath.Join(temp, "root"), b.dir)); err != nil {
			return b, fmt.Errorf("keep Chromium: %w", err)
		}
	}
	return b, b.works(ctx)
}

// unpack downloads the packages that the machine lacks, whose signatures apt checks, and unpacks them into temp/root.
func unpack(ctx context.Context, temp string) error {
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = temp
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("fetch Chromium (Debian's package chromium-headless-shell is needed): %s %v: %w\n%s", name, args, err, out)
		}
		return string(out), nil
	}
	download := func() error {
		// The simulation lists what an installation would add.
		plan, err := run("apt-get", "install", "--simulate", "--reinstall", "--no-install-recommends", "chromium-headless-shell", "fonts-dejavu-core")
		if err != nil {
			return err
		}
		args := []string{"download", "-q"}
		for line := range strings.Lines(plan) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
				args = append(args, fields[1])
			}
		}
		_, err = run("apt-get", args...)
		return err
	}
	if download() != nil {
		if _, err := run("apt-get", "update", "-q"); err != nil {
			return err
		}
		if err := download(); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("fetch Chromium: found no packages: %w", errors.Join(err, os.ErrNotExist))
	}
	for _, deb := range debs {
		if _, err := run("dpkg-deb", "-x", deb, "root"); err != nil {
			return err
		}
	}
	return nil
}

func (b Browser) path() string {
	return filepath.Join(b.dir, "usr", "lib", "chromium", "chromium-headless-shell")
}

// environment lets the browser find its libraries and fonts, which are not installed.
func (b Browser) environment() ([]string, error) {
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/pulseaudio", "lib/*-linux-gnu"} {
		found, err := filepath.Glob(filepath.Join(b.dir, pattern))
		if err != nil {
			return nil, fmt.Errorf("find the libraries of Chromium: %w", err)
		}
		dirs = append(dirs, found...)
	}
	fonts := filepath.Join(b.dir, "fonts.conf")
	text := fmt.Sprintf(`<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>%s</dir><cachedir>%s</cachedir></fontconfig>`,
		filepath.Join(b.dir, "usr", "share", "fonts"), filepath.Join(b.dir, "fontcache"))
	if err := os.WriteFile(fonts, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("name the fonts of Chromium: %w", err)
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, ":"), "FONTCONFIG_FILE=" + fonts}, nil
}

// works returns nil if the browser starts. The machine may have lost a library since.
func (b Browser) works(ctx context.Context) error {
	if _, err := os.Stat(b.path()); err != nil {
		return fmt.Errorf("find Chromium: %w", err)
	}
	environment, err := b.environment()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, b.path(), "--version")
	cmd.Env = append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start Chromium: %w\n%s", err, out)
	}
	return nil
}
