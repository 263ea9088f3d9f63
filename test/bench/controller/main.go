// Command controller measures limpet-controller on a real API server that holds a large cluster
// as objects alone. The command stands in for StatefulSet controller, scheduler and kubelet, so
// that only the API server and limpet-controller are measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
	"github.com/limpet-io/limpet/test/programs"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	root := flag.String("root", ".", "directory of the repository")
	controller := flag.String("controller", "bin/limpet-controller", "the controller")
	assets := flag.String("assets", os.Getenv(programs.Var), "directory of kube-apiserver and etcd")
	out := flag.String("out", "", "file to write the tables to, as well as to standard output")
	size := full
	flag.IntVar(&size.nodes, "nodes", size.nodes, "nodes")
	flag.IntVar(&size.sets, "sets", size.sets, "StatefulSets")
	flag.IntVar(&size.replicas, "replicas", size.replicas, "pods of each StatefulSet")
	flag.IntVar(&size.rate, "rate", size.rate, "creations a second")
	budgets, budgetSize := flag.Bool("budgets", false, "measure budgets in place of pins"), fullBudgets
	flag.IntVar(&budgetSize.pods, "budget-pods", budgetSize.pods, "pods of one budget")
	flag.IntVar(&budgetSize.seconds, "budget-seconds", budgetSize.seconds, "length of the longest step")
	spreads, spreadSize := flag.Bool("spreads", false, "measure spreads in place of pins"), fullSpreads
	flag.IntVar(&spreadSize.pods, "spread-pods", spreadSize.pods, "pods of one spread")
	flag.IntVar(&spreadSize.seconds, "spread-seconds", spreadSize.seconds, "length of the longest step")
	flag.IntVar(&spreadSize.storm, "spread-storm", spreadSize.storm, "creations through two replicas")
	flag.Parse()
	p := bed.Place{Root: *root, Controller: *controller, Assets: *assets}
	measureThem := func() (string, error) { return measureAll(ctx, p, size) }
	if *budgets {
		measureThem = func() (string, error) { return measureBudgets(ctx, p, budgetSize) }
	}
	if *spreads {
		measureThem = func() (string, error) { return measureSpreads(ctx, p, spreadSize) }
	}
	text, err := measureThem()
	fmt.Print(text)
	if text != "" && *out != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(*root, *out), []byte(text), 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		return 1
	}
	return 0
}

// scale is how much of everything.
type scale struct {
	nodes, sets, replicas int
	rate                  int           // of creations, a second
	settle                time.Duration // until the events of rebuilds are there
}

var full = scale{nodes: 100, sets: 200, replicas: 50, rate: 50, settle: pin.UsualPace.Between + 4*pin.UsualPace.Returned}

func (s scale) pods() int { return s.sets * s.replicas }

// Of the pods, these are in a step of their own.
func (s scale) trickle() int   { return max(3, s.pods()*6/100) }
func (s scale) burst() int     { return max(3, s.pods()*3/100) }
func (s scale) wholeSets() int { return max(1, s.sets*3/100) }
func (s scale) creates() int   { return s.pods() * 20 / 100 }
func (s scale) rebuilds() int  { return max(3, s.pods()*3/100) }

// The steps take their pods in this order: fill, trickle, burst, wholeSets.
func (s scale) spread() int { return (s.sets - s.wholeSets()) * s.replicas }
func (s scale) fill() int   { return s.spread() - s.trickle() - s.burst() }

// measureAll takes a cluster through its life and returns what it saw.
func measureAll(ctx context.Context, p bed.Place, size scale) (string, error) {
	r := report{size: size}
	if err := live(ctx, p, size, &r.seen, &r, (*bench).steps); err != nil {
		return "", err
	}
	return r.markdown(), nil
}

// seen is what each report has.
type seen struct {
	machine measure.Machine
	took    time.Duration
}

// step is one part of a measurement, which writes what it saw into a report.
type step[R any] struct {
	name string
	run  func(context.Context, *R) error
}

// live takes a new cluster through some steps.
func live[R any](ctx context.Context, p bed.Place, size scale, s *seen, r *R, steps func(*bench) []step[R]) (err error) {
	if p.Dir, err = os.MkdirTemp("", "limpet-bench-controller-"); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(p.Dir) }() // of the temporary directory of this machine
	if s.machine, err = measure.LookAround(p.Dir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &bench{Bed: bed.Bed{Place: p}, size: size, begin: time.Now(), endWatches: cancel}
	defer func() { err = b.stop(err) }()
	if err := b.start(ctx); err != nil {
		return err
	}
	for _, step := range steps(b) {
		b.progress(step.name)
		if err := step.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	s.took = time.Since(b.begin)
	return nil
}

// steps are the parts of a measurement, in order.
func (b *bench) steps() []step[report] {
	return []step[report]{
		{"fill", b.fill},
		{"Ready one after the other", b.trickle},
		{"Ready all at once, of many sets", b.burst},
		{"Ready all at once, of few sets", b.burstOfSets},
		{"restart", b.restart},
		{"webhook", b.askWebhook},
		{"create", b.compareCreates},
		{"rebuild", b.rebuild},
		{"create, with the least of webhooks", b.leastWebhook},
	}
}
