// Command chaos disturbs a cluster of its own at random, seed by seed, and reports whether
// Limpet's promises held. It writes a table with a row for each seed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
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
	name      string
	repo, out string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "first seed; a seed decides all faults of its run")
	flag.IntVar(&o.seeds, "seeds", 1, "number of seeds, each with a new cluster")
	flag.DurationVar(&o.length, "length", 15*time.Minute, "length of the run of one seed")
	flag.StringVar(&o.name, "name", "chaos", "name of the cluster")
	flag.StringVar(&o.repo, "repo", "../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.out, "out", "", "also add the row of each seed to the table in this `file`, relative to the root of the repository")
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
	violations := 0
	for i := range o.seeds {
		report, err := one(ctx, o, o.seed+uint64(i))
		if err != nil {
			return fmt.Errorf("seed %d: %w", o.seed+uint64(i), err)
		}
		fmt.Print("\n", chaos.Header, report.Row(), "\n", chaos.KindsHeader(), report.Kinds(), "\n")
		for _, v := range report.Violations {
			fmt.Println("violation:", v)
		}
		violations += len(report.Violations)
		if err := write(o, report); err != nil {
			return err
		}
	}
	if violations > 0 {
		return fmt.Errorf("%d violations", violations)
	}
	return nil
}

// write adds a report to the document, if one is wanted.
func write(o options, report chaos.Report) error {
	if o.out == "" {
		return nil
	}
	path := filepath.Join(o.repo, o.out)
	earlier, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the table: %w", err)
	}
	if err := os.WriteFile(path, []byte(chaos.Page(string(earlier), report)), 0o644); err != nil { //nolint:gosec // it is a document
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// one runs one seed on a new cluster.
func one(ctx context.Context, o options, seed uint64) (report chaos.Report, err error) {
	progress := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	progress("seed %d, %s", seed, o.length)
	b, err := bed.Up(ctx, o.name, o.repo, progress, func(c *cluster.Config) {
		c.AuditPolicy, c.CNIDisk = disruptions.AuditPolicy, chaos.DiskSize
	})
	if err != nil {
		return report, err
	}
	defer func() {
		if err != nil || len(report.Violations) > 0 {
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), b))
			err = errors.Join(err, keepLogs(b, filepath.Join(o.repo, "bin", fmt.Sprintf("%s-seed-%d", o.name, seed))))
		}
		err = errors.Join(err, b.Down())
	}()
	if err := b.Probe(ctx); err != nil {
		return report, err
	}
	return chaos.Run(ctx, b, seed, o.length, progress)
}

// keepLogs powers the nodes off, and copies the logs of the control plane, the audit log among them, and of the nodes.
func keepLogs(b *bed.Bed, dir string) error {
	from := map[string]string{"control": b.Cluster.LogDir()}
	for _, node := range b.Cluster.Nodes() {
		from[node] = filepath.Join(b.Cluster.Disk(node), "var/log")
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove earlier logs: %w", err)
	}
	for _, node := range b.Cluster.Nodes() { // so that no log goes while it is copied
		if err := b.Cluster.PowerOff(node); err != nil {
			return fmt.Errorf("keep logs: %w", err)
		}
	}
	for name, logs := range from {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(logs)); err != nil {
			return fmt.Errorf("keep the logs of %s: %w", name, err)
		}
	}
	fmt.Println("logs:", dir)
	return nil
}
