// Command upgrade takes Limpet from an earlier commit to this checkout and back, part by part in every order, on a
// cluster of its own. It writes a table with a row for each order.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/upgrade"
)

type options struct {
	name, repo, from, out, order string
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "upgrade", "`name` of the cluster")
	flag.StringVar(&o.repo, "repo", "../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.from, "from", "", "the earlier `commit`")
	flag.StringVar(&o.out, "out", "", "after all orders, replace the table in this `file`, relative to the root of the repository")
	flag.StringVar(&o.order, "order", "", "only this order, such as \"CRDs, controller, agent\"; all when empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	progress := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if o.from == "" {
		return errors.New("from which commit? make test-upgrade FROM=COMMIT")
	}
	orders := upgrade.Orders()
	if o.order != "" {
		orders = slices.DeleteFunc(orders, func(order upgrade.Order) bool { return order.String() != o.order })
	}
	if len(orders) == 0 {
		return fmt.Errorf("there is no order %q", o.order)
	}
	older, err := os.MkdirTemp("", "limpet-upgrade-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(older)) }()
	if err := upgrade.Earlier(ctx, o.repo, o.from, older, os.Stderr); err != nil {
		return err
	}
	r, err := upgrade.Start(ctx, upgrade.Setup{Name: o.name, Repo: o.repo, Older: older, Progress: progress})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), r.Bed))
		}
		err = errors.Join(err, r.Bed.Down())
	}()
	rows, violations, err := runAll(ctx, r, orders)
	if err != nil {
		return err
	}
	if o.out != "" && o.order == "" {
		if err := upgrade.WriteTable(filepath.Join(o.repo, o.out), rows); err != nil {
			return err
		}
	}
	if violations > 0 {
		return fmt.Errorf("%d violations", violations)
	}
	return nil
}

// runAll runs each order up and down. It returns the rows of the table.
func runAll(ctx context.Context, r *upgrade.Runner, orders []upgrade.Order) (rows string, violations int, err error) {
	for _, order := range orders {
		for _, up := range []bool{true, false} {
			report, err := r.Run(ctx, order, up)
			if err != nil {
				return rows, violations, err
			}
			r.Progress("%s", report.Row())
			for _, v := range report.Violations {
				r.Progress("violation: %s", v)
			}
			rows += report.Row()
			violations += len(report.Violations)
		}
	}
	return rows, violations, nil
}
