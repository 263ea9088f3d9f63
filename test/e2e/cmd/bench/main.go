// Command bench measures what Limpet adds to the rebuild of a pod: on a real cluster it
// deletes pods of two StatefulSets, one that Limpet keeps and one on upstream host-local
// that Limpet knows nothing of, in turns.
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
	repo, out      string
	rounds, visits int
}

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	flag.StringVar(&o.repo, "repo", "../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.out, "out", "", "`file` below the root to write the tables to, as well as to standard output")
	flag.IntVar(&o.rounds, "rounds", 4, "how often each of the two has its turn")
	flag.IntVar(&o.visits, "visits", 6, "rebuilds of each pod in a turn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
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

// measure lets both have their turns, and looks at the agents' memory at the end.
func measure(ctx context.Context, b *bed.Bed, o options, progress func(string, ...any)) (report, error) {
	with, without := &turn{bed: b, side: kept}, &turn{bed: b, side: plain}
	for i := range o.rounds {
		for _, t := range []*turn{with, without} {
			progress("turn %d of %d: %s", i+1, o.rounds, t.side.title)
			if err := t.take(ctx, o.visits); err != nil {
				return report{}, fmt.Errorf("%s: %w", t.side.title, err)
			}
		}
	}
	progress("the agents' memory")
	pods, memory, err := agentMemory(ctx, b)
	return report{with: with, without: without, pods: pods, agent: memory}, err
}
