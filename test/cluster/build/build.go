// Package build compiles what a cluster is made of, from Go modules of the
// published versions, and keeps the binaries outside the repository under a hash
// of everything that went into them.
package build

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/test/cluster/preflight"
)

// Modules holds a .mod and a .sum file of each component, which name every version.
type Modules = embed.FS

// Progress takes one line at a time about work that lasts.
type Progress func(format string, args ...any)

// Builder compiles components into a cache.
type Builder struct {
	// Cache is the directory of the cache, made when missing.
	Cache string
	// Modules holds the build modules.
	Modules Modules
	// Kubernetes is the minor version of Kubernetes, such as 1.30; the usual one without it.
	Kubernetes string
	// Progress is told what is built and for how long.
	Progress Progress

	total int // the number of components that are asked for
}

// Build builds the components that every cluster needs, and those that are named as well, unless they are in the cache.
// It returns the directory of each.
func (b *Builder) Build(ctx context.Context, more ...string) (map[string]string, error) {
	wanted, err := needed(b.Kubernetes, more...)
	if err != nil {
		return nil, err
	}
	b.total = len(wanted)
	dirs, err := b.places(ctx, wanted)
	if err != nil {
		return nil, err
	}
	todo := slices.DeleteFunc(slices.Clone(wanted), func(c component) bool { return checkContents(c, dirs[c.name]) == nil })
	if len(todo) > 0 {
		all := time.Duration(0)
		for _, c := range todo {
			all += c.usual
		}
		b.Progress("to build: %s; %s on two cores, once: later runs take it from the cache", names(todo), all)
	}
	for _, c := range wanted {
		if i := slices.IndexFunc(todo, func(t component) bool { return t.name == c.name }); i >= 0 {
			err = b.one(ctx, c, dirs[c.name], todo[i:])
		} else {
			err = used(dirs[c.name])
		}
		if err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// places returns the directory of each wanted component in the cache, whether it is built or not.
func (b *Builder) places(ctx context.Context, wanted []component) (map[string]string, error) {
	if err := os.MkdirAll(filepath.Join(b.Cache, "build"), 0o755); err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	dirs := map[string]string{}
	for _, c := range wanted {
		hash, err := b.hash(ctx, c)
		if err != nil {
			return nil, err
		}
		dirs[c.name] = filepath.Join(b.Cache, "build", c.name+"-"+hash)
	}
	return dirs, nil
}

// one builds a component unless another builder, for which it waits, has just done so.
// The component is the first of todo, which is all that is left to build.
func (b *Builder) one(ctx context.Context, c component, dir string, todo []component) error {
	unlock, err := b.lock(ctx, c.name)
	if err != nil {
		return err
	}
	defer unlock()
	switch err := checkContents(c, dir); {
	case err == nil:
		return used(dir)
	case !errors.Is(err, fs.ErrNotExist):
		b.Progress("building %s again: %v", c.name, err)
	}
	if err := preflight.Space(ctx); err != nil {
		return err
	}
	if err := b.compile(ctx, c, dir, todo); err != nil {
		return err
	}
	return prune(dir, time.Now())
}

func names(todo []component) string {
	var all []string
	for _, c := range todo {
		all = append(all, c.name+" "+c.version)
	}
	return strings.Join(all, ", ")
}

func (b *Builder) compile(ctx context.Context, c component, dir string, todo []component) error {
	src, err := b.source(ctx, c)
	if err != nil {
		return err
	}
	defer os.RemoveAll(src) //nolint:errcheck // a left-over in the temporary directory does no harm
	temp := dir + ".new"
	if err := errors.Join(os.RemoveAll(temp), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove left-over: %w", err)
	}
	args := []string{"build", "-trimpath", "-ldflags", c.ldflags, "-o", temp + "/"}
	if c.tags != "" {
		args = append(args, "-tags", c.tags)
	}
	if c.main != nil {
		args = append(args, ".")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "tool")...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it has temporary files to remove
	cmd.WaitDelay = 30 * time.Second
	stop := b.tick(c, todo)
	out, err := cmd.CombinedOutput()
	stop()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", c.name, err, tail(string(out), 20))
	}
	if c.c != nil {
		if err := c.c.compile(ctx, src, temp); err != nil {
			return fmt.Errorf("build %s: %w", c.name, err)
		}
	}
	for from, to := range c.rename {
		if err := os.Rename(filepath.Join(temp, from), filepath.Join(temp, to)); err != nil {
			return fmt.Errorf("name %s: %w", to, err)
		}
	}
	if err := checkContents(c, temp); err != nil {
		return fmt.Errorf("build %s: %w", c.name, err)
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("keep %s: %w", c.name, err)
	}
	return nil
}

// source lays the component's build module out in a directory of its own.
func (b *Builder) source(ctx context.Context, c component) (string, error) {
	src, err := os.MkdirTemp("", "limpet-build-"+c.name+"-")
	if err != nil {
		return "", fmt.Errorf("lay out %s: %w", c.name, err)
	}
	for _, ext := range []string{".mod", ".sum"} {
		data, err := fs.ReadFile(b.Modules, "modules/"+c.file()+ext)
		if err == nil {
			err = os.WriteFile(filepath.Join(src, "go"+ext), data, 0o644)
		}
		if err != nil {
			return "", fmt.Errorf("lay out %s: %w", c.name, err)
		}
	}
	if c.main != nil {
		if err := c.main.write(ctx, src); err != nil {
			return "", fmt.Errorf("lay out %s: %w", c.name, err)
		}
	}
	return src, nil
}

// hash names everything that decides what the binaries are.
func (b *Builder) hash(ctx context.Context, c component) (string, error) {
	h := sha256.New()
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("ask go for its version (is Go installed and in PATH?): %w", err)
	}
	h.Write(version)
	for _, ext := range []string{".mod", ".sum"} {
		data, err := fs.ReadFile(b.Modules, "modules/"+c.file()+ext)
		if err != nil {
			return "", fmt.Errorf("read build module of %s: %w", c.name, err)
		}
		h.Write(data)
	}
	fmt.Fprintf(h, "%s|%s|%v", c.ldflags, c.tags, c.rename) // the tools in the .mod file say which programs
	if c.main != nil {
		fmt.Fprintf(h, "|%v", *c.main)
	}
	if c.c != nil {
		fmt.Fprintf(h, "|%v", *c.c)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// interval is the time between two lines about a build.
const interval = 15 * time.Second

// tick tells how long a build takes, every interval until stop.
func (b *Builder) tick(c component, todo []component) (stop func()) {
	start := time.Now()
	what := fmt.Sprintf("building %s %s (%d/%d)", c.name, c.version, b.total-len(todo)+1, b.total)
	tell := func() {
		b.Progress("%s: %d s so far; it takes %s on two idle cores", what, int(time.Since(start).Seconds()), c.usual)
	}
	tell()
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				tell()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		b.Progress("%s: done in %d s", what, int(time.Since(start).Seconds()))
	}
}

// kept is how long unused binaries stay in the cache.
const kept = 30 * 24 * time.Hour

// used notes that binaries in the cache are of use.
func used(dir string) error {
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return fmt.Errorf("note use: %w", err)
	}
	return nil
}

// prune removes what the cache holds of the same component and no build has used for
// long. It must be called with the component's lock held.
func prune(dir string, now time.Time) error {
	component, _, _ := strings.Cut(filepath.Base(dir), "-")
	all, err := filepath.Glob(filepath.Join(filepath.Dir(dir), component+"-*"))
	if err != nil {
		return fmt.Errorf("list cache: %w", err)
	}
	for _, old := range all {
		info, err := os.Stat(old)
		if err != nil || now.Sub(info.ModTime()) < kept {
			continue
		}
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("prune cache: %w", err)
		}
	}
	return nil
}

// lock takes a component's lock, which another build may hold for minutes.
func (b *Builder) lock(ctx context.Context, component string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.Cache, "build", component+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock cache: %w", err)
	}
	told := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing drops the lock
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock cache: %w", err), f.Close())
		}
		if !told {
			b.Progress("waiting for another build of %s", component)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another build of %s: %w", component, context.Cause(ctx)), f.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
