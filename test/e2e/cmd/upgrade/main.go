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
	"strings"
	"syscall"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/upgrade"
)

type options struct {
	name, repo, from, out string
	orders                int
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "upgrade", "`name` of the cluster")
	flag.StringVar(&o.repo, "repo", "../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.from, "from", "", "`directory` with a checkout of the earlier commit, with its binaries in bin")
	flag.StringVar(&o.out, "out", "", "also replace the table in this `file`, relative to the root of the repository")
	flag.IntVar(&o.orders, "orders", len(upgrade.Orders()), "number of orders")
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
	r, err := start(ctx, o, progress)
	if err != nil {
		return err
	}
	violations := 0
	defer func() {
		if err != nil || violations > 0 {
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), r.Bed))
		}
		err = errors.Join(err, r.Bed.Down())
	}()
	var rows strings.Builder
	for _, order := range upgrade.Orders()[:o.orders] {
		for _, up := range []bool{true, false} {
			progress("%s, up %t", order, up)
			report, err := r.Run(ctx, order, up)
			if err != nil {
				return err
			}
			progress("%s", report.Row())
			for _, v := range report.Violations {
				progress("violation: %s", v)
			}
			rows.WriteString(report.Row())
			violations += len(report.Violations)
		}
	}
	if o.out != "" {
		if err := upgrade.WriteTable(filepath.Join(o.repo, o.out), rows.String()); err != nil {
			return err
		}
	}
	if violations > 0 {
		return fmt.Errorf("%d violations", violations)
	}
	return nil
}

// start starts a cluster with the earlier commit and the workloads.
func start(ctx context.Context, o options, progress func(string, ...any)) (*upgrade.Runner, error) {
	archives, err := archives(o)
	if err != nil {
		return nil, err
	}
	r := &upgrade.Runner{Progress: progress}
	_, err = bed.UpWith(ctx, o.name, o.repo, progress, func(ctx context.Context, b *bed.Bed) error {
		r.Bed = b
		return r.Install(ctx, o.from, o.repo)
	}, func(c *cluster.Config) {
		c.AuditPolicy = upgrade.AuditPolicy
		c.Images = append(c.Images, archives...)
	})
	return r, err
}

// archives writes the images of both commits, with tags that tell them apart.
func archives(o options) ([]string, error) {
	var all []string
	for tag, repo := range map[string]string{upgrade.OlderTag: o.from, upgrade.NewTag: o.repo} {
		bin := func(name string) string { return filepath.Join(repo, "bin", name) }
		archive := filepath.Join(o.repo, "bin", "images-"+o.name+"-"+tag+".tar")
		err := image.Write(archive, []image.Image{
			{Name: "limpet-io/limpet-agent:" + tag, Files: []string{bin("limpet-agent"), bin("limpet-ipam")}},
			{Name: "limpet-io/limpet-controller:" + tag, Files: []string{bin("limpet-controller")}},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, archive)
	}
	return all, nil
}
