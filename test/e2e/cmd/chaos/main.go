// Command chaos disturbs a cluster of its own at random, seed by seed, and reports whether
// Limpet's promises held. It writes a table with a row for each seed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/disruptions"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/chaos"
)

type options struct {
	seed      uint64
	seeds     int
	length    time.Duration
	repo, out string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "first seed; a seed decides all faults of its run")
	flag.IntVar(&o.seeds, "seeds", 1, "number of seeds, each with a new cluster")
	flag.DurationVar(&o.length, "length", 15*time.Minute, "length of the run of one seed")
	flag.StringVar(&o.repo, "repo", "../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.out, "out", "", "also write the table to this `file`, relative to the root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// run runs all seeds, also after one of them found violations.
func run(ctx context.Context, o options) error {
	var rows, kinds strings.Builder
	violations := 0
	for i := range o.seeds {
		report, err := one(ctx, o, o.seed+uint64(i))
		if err != nil {
			return fmt.Errorf("seed %d: %w", o.seed+uint64(i), err)
		}
		fmt.Print("\n", chaos.Header, report.Row(), "\n")
		for _, v := range report.Violations {
			fmt.Println("violation:", v)
		}
		violations += len(report.Violations)
		rows.WriteString(report.Row())
		fmt.Fprintf(&kinds, "* Seed %d: %s.\n", report.Seed, report.Kinds())
	}
	if o.out != "" {
		if err := os.WriteFile(o.repo+"/"+o.out, []byte(chaos.Page(rows.String(), kinds.String())), 0o644); err != nil { //nolint:gosec // it is a document
			return fmt.Errorf("write the table: %w", err)
		}
	}
	if violations > 0 {
		return fmt.Errorf("%d violations", violations)
	}
	return nil
}

// one runs one seed on a new cluster.
func one(ctx context.Context, o options, seed uint64) (report chaos.Report, err error) {
	progress := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	progress("seed %d, %s", seed, o.length)
	b, err := bed.Up(ctx, "chaos", o.repo, progress, func(c *cluster.Config) { c.AuditPolicy = disruptions.AuditPolicy })
	if err != nil {
		return report, err
	}
	defer func() {
		if err != nil || len(report.Violations) > 0 {
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), b))
		}
		err = errors.Join(err, b.Down())
	}()
	if err := b.Probe(ctx); err != nil {
		return report, err
	}
	return chaos.Run(ctx, b, seed, o.length, progress)
}
