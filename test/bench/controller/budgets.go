package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// budgetScale is how much of everything the measurement of budgets has.
type budgetScale struct {
	pods    int           // that one budget covers
	units   int           // of them that may be unavailable
	back    time.Duration // after which an evicted pod is Ready again
	rate    int           // requests a second
	seconds int           // of the longest step; the others take a third
	budgets int           // that share no pod, with some pods each
}

var fullBudgets = budgetScale{pods: 2000, units: 50, back: 2 * time.Second, rate: 50, seconds: 60, budgets: 10}

func (s budgetScale) requests() int { return s.rate * s.seconds }
func (s budgetScale) few() int      { return s.rate * s.seconds / 3 }

// some is the number of pods of the services beside the large one.
func (s budgetScale) some() int { return max(10, s.pods/10) }

// measureBudgets has budgets judge requests of an API server, and returns what it saw.
func measureBudgets(ctx context.Context, p place, size budgetScale) (text string, err error) {
	dir, err := os.MkdirTemp("", "limpet-bench-budgets-")
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // of the temporary directory of this machine
	p.dir = dir
	r := budgetReport{size: size}
	if r.machine, err = measure.LookAround(dir); err != nil {
		return "", err
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	b := &bench{place: p, size: scale{rate: size.rate}, begin: begin, endWatches: cancel}
	defer func() { err = b.stop(err) }()
	if err := b.start(ctx); err != nil {
		return "", err
	}
	g := &guarding{bench: b, size: size}
	for _, step := range g.steps() {
		b.progress(step.name)
		if err := step.run(ctx, &r); err != nil {
			return "", fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.took = time.Since(begin)
	return r.markdown(), nil
}

// budgetStep is one part of the measurement of budgets.
type budgetStep struct {
	name string
	run  func(context.Context, *budgetReport) error
}

// guarding is a cluster whose pods have budgets.
type guarding struct {
	*bench

	size  budgetScale
	relay *relay
	one   *service   // with all the pods
	many  []*service // with a budget each
	peers []*service // with a budget, with a PodDisruptionBudget, and with neither

	returns sync.WaitGroup // of pods that come back
}

func (g *guarding) steps() []budgetStep {
	return []budgetStep{
		{"make pods and budgets", g.build},
		{"requests for one budget", g.mixed},
		{"dry runs", g.dryRuns},
		{"requests for budgets that share no pod", g.independent},
		{"requests for all of them at the same moment", g.atOnce},
		{"bare writes", g.bareWrites},
		{"evictions beside a PodDisruptionBudget", g.compare},
	}
}

// mixed asks one budget for twice as many pods as it can let go.
func (g *guarding) mixed(ctx context.Context, r *budgetReport) error {
	g.relay.take()
	if err := g.press(ctx, g.size.requests(), func(i int) *service { return g.one }); err != nil {
		return err
	}
	r.written, r.refused = g.relay.takeBoth()
	return nil
}

// dryRuns asks the same budget, and changes nothing.
func (g *guarding) dryRuns(ctx context.Context, r *budgetReport) error {
	g.relay.take()
	_, err := g.steadily(ctx, g.size.rate, g.size.few(), func(ctx context.Context, i int) error {
		_, err := g.evict(ctx, g.one.pod(i), true)
		return err
	})
	r.dry = g.relay.take()
	return err
}

// independent asks one budget after the other.
func (g *guarding) independent(ctx context.Context, r *budgetReport) error {
	g.relay.take()
	err := g.press(ctx, g.size.few(), func(i int) *service { return g.many[i%len(g.many)] })
	r.independent = g.relay.take()
	return err
}

// atOnce asks all budgets at the same moment, again and again.
func (g *guarding) atOnce(ctx context.Context, r *budgetReport) error {
	g.relay.take()
	_, err := g.steadily(ctx, max(1, g.size.rate/len(g.many)), g.size.few()/len(g.many), func(ctx context.Context, _ int) error {
		return g.parallel(ctx, len(g.many), len(g.many), func(ctx context.Context, i int) error {
			_, _, err := g.ask(ctx, g.many[i])
			return err
		})
	})
	g.returns.Wait()
	r.atOnce = g.relay.take()
	return err
}
