// Command rebuild measures how much longer the rebuild of a pod takes with Limpet than
// without. On a real cluster it deletes pods of two StatefulSets in turns: one with Limpet,
// and one on upstream host-local in a namespace that Limpet ignores.
//
// The command is a module of its own, because it starts the cluster of test/cluster and
// test/e2e/bed, which are modules outside of the product's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

type options struct {
	repo, out                string
	rounds, rebuilds, forced int
}

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	flag.StringVar(&o.repo, "repo", "../../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.out, "out", "", "`file` below the root to write the tables to, as well as to standard output")
	flag.IntVar(&o.rounds, "rounds", 4, "number of turns of each StatefulSet")
	flag.IntVar(&o.rebuilds, "rebuilds", 6, "number of rebuilds of each pod in a turn")
	flag.IntVar(&o.forced, "forced", 2, "number of rebuilds of each pod in a turn after a deletion by force")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "rebuild:", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, o options) error {
	start := time.Now()
	progress := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	b, err := bed.Up(ctx, "bench", o.repo, progress)
	if err != nil {
		return err
	}
	r, err := measure(ctx, b, o, progress)
	if err != nil {
		fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), b))
	}
	if err = errors.Join(err, b.Down()); err != nil {
		return err
	}
	text := r.markdown(time.Since(start))
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(b.Repo, o.out), []byte(text), 0o644)
}

// measure runs both series in turns, and reads the agent's memory at the end.
func measure(ctx context.Context, b *bed.Bed, o options, progress func(string, ...any)) (report, error) {
	with, without := &series{bed: b, variant: limpet}, &series{bed: b, variant: hostLocal}
	for i := range o.rounds {
		for _, s := range []*series{with, without} {
			progress("turn %d of %d: %s", i+1, o.rounds, s.variant.title)
			if err := s.turn(ctx, o.rebuilds, o.forced); err != nil {
				return report{}, fmt.Errorf("%s: %w", s.variant.title, err)
			}
		}
	}
	progress("memory of the agent")
	pods, memory, err := agentMemory(ctx, b)
	return report{with: with, without: without, pods: pods, agent: memory}, err
}
