// Command plugin measures limpet-ipam and upstream host-local in turns on one machine, and
// writes the results as tables.
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
	upstream := flag.String("upstream", "", "directory of the published plugins; empty: build them")
	out := flag.String("out", "", "file to write the tables to, as well as to standard output")
	dir := flag.String("dir", "", "directory for the states, which selects the file system; empty: a temporary directory")
	only := flag.String("only", "", "measure only scenarios and loads with this in their name, and write no file")
	flag.Parse()
	return exit(runAll(ctx, *root, *upstream, *out, *dir, *only))
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		return 1
	}
	return 0
}

// bench holds what all measurements need.
type bench struct {
	binaries cniexec.Binaries
	dir      string
	only     string
	begin    time.Time
	through  []string // runs the plugins; none when empty
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

// all runs all measurements.
func (b bench) all(ctx context.Context) (report, error) {
	var r report
	var err error
	if r.machine, err = measure.LookAround(b.dir); err != nil {
		return r, err
	}
	if r.plugins, err = describePlugins(b.binaries); err != nil {
		return r, err
	}
	if strings.Contains(shareLoadName, b.only) {
		if r.share, err = runShare(ctx, b, shareLoad); err != nil {
			return r, err
		}
	}
	var large []memory
	for _, s := range scenarios {
		if !strings.Contains(s.name, b.only) {
			continue
		}
		p, err := s.run(ctx, b)
		if err != nil {
			return r, err
		}
		r.scenarios = append(r.scenarios, p)
		large = append(large, p.peaks...)
	}
	for _, l := range loads {
		if !strings.Contains(l.name(), b.only) {
			continue
		}
		p, err := l.run(ctx, b)
		if err != nil {
			return r, err
		}
		r.loads = append(r.loads, p)
	}
	if r.disturbed, err = runDisturbed(ctx, b); err != nil {
		return r, err
	}
	for _, used := range []int{0, 50_000} {
		b.progress("memory", used, 50_000)
		m, err := measureMemory(ctx, b, used)
		if err != nil {
			return r, err
		}
		r.memory = append(r.memory, m)
	}
	r.memory = append(r.memory, large...)
	r.took = time.Since(b.begin)
	return r, nil
}

// progress prints each tenth of a measurement.
func (b bench) progress(what string, i, n int) {
	if n < 10 || i%(n/10) == 0 {
		fmt.Fprintf(os.Stderr, "%5.0fs  %s: %d/%d\n", time.Since(b.begin).Seconds(), what, i, n)
	}
}

// remove deletes the directory of a state.
func (b bench) remove(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
	}
}
