// Package browser runs a real browser without a screen.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/test/debian"
)

// Browser is an unpacked Chromium with the libraries that the machine lacks.
type Browser struct{ dir string }

// Fetch returns Debian's Chromium without a screen, unpacked in a directory of the cache.
func Fetch(ctx context.Context, cache string) (Browser, error) {
	dir, err := debian.Program{
		Name: "chromium", Packages: []string{"chromium-headless-shell", "fonts-dejavu-core"}, Libraries: true,
		Works: func(ctx context.Context, dir string) error { return Browser{dir}.works(ctx) },
	}.Fetch(ctx, cache)
	return Browser{dir}, err
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
