// Command bench measures limpet-ipam and upstream host-local beside each other, in turns
// on one machine, and writes what it saw as tables.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
	"github.com/limpet-io/limpet/test/cniexec"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 2 && os.Args[1] == peakArgument {
		return exit(printPeak(ctx, os.Args[2:]))
	}
	root := flag.String("root", ".", "directory of the repository")
	upstream := flag.String("upstream", "", "directory of the published plugins; built when empty")
	out := flag.String("out", "", "file to write the tables to, as well as to standard output")
	dir := flag.String("dir", "", "directory for the states, on the file system to measure; a temporary one when empty")
	only := flag.String("only", "", "measure only what has this in its name, and write no file")
	flag.Parse()
	return exit(runAll(ctx, *root, *upstream, *out, *dir, *only))
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// bench is where to measure and whom to tell.
type bench struct {
	binaries cniexec.Binaries
	dir      string
	only     string
	begin    time.Time
}

func runAll(ctx context.Context, root, upstream, out, parent, only string) error {
	dir, err := os.MkdirTemp(parent, "limpet-bench-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	b := bench{dir: dir, only: only, begin: time.Now()}
	defer b.remove(dir)
	b.progress("building", 0, 1)
	if b.binaries, err = cniexec.Build(ctx, root, dir, upstream); err != nil {
		return err
	}
	r, err := b.all(ctx)
	if err != nil {
		return err
	}
	text := r.markdown()
	fmt.Print(text)
	if out == "" || only != "" {
		return nil
	}
	return os.WriteFile(filepath.Join(root, out), []byte(text), 0o644)
}

// all measures everything.
func (b bench) all(ctx context.Context) (report, error) {
	var r report
	var err error
	if r.machine, err = measure.LookAround(b.dir); err != nil {
		return r, err
	}
	if r.plugins, err = lookAtPlugins(b.binaries); err != nil {
		return r, err
	}
	for _, s := range scenes {
		if !strings.Contains(s.name, b.only) {
			continue
		}
		p, err := s.run(ctx, b)
		if err != nil {
			return r, err
		}
		r.scenes = append(r.scenes, p)
	}
	for _, c := range crowds {
		if !strings.Contains(c.name(), b.only) {
			continue
		}
		t, err := c.run(ctx, b)
		if err != nil {
			return r, err
		}
		r.crowds = append(r.crowds, t)
	}
	for _, used := range []int{0, 50_000} {
		b.progress("memory", used, 50_000)
		m, err := measureMemory(ctx, b, used)
		if err != nil {
			return r, err
		}
		r.memory = append(r.memory, m)
	}
	r.took = time.Since(b.begin)
	return r, nil
}

// progress tells a person that something goes on; every tenth of it is enough.
func (b bench) progress(what string, i, n int) {
	if n < 10 || i%(n/10) == 0 {
		fmt.Fprintf(os.Stderr, "%5.0fs  %s: %d/%d\n", time.Since(b.begin).Seconds(), what, i, n)
	}
}

// remove deletes a state, which can be tens of thousands of files.
func (b bench) remove(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}
