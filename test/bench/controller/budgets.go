package main

import (
	"context"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/bench/bed"
)

// budgetScale is how much of everything the measurement of budgets has.
type budgetScale struct {
	pods    int           // that one budget covers
	units   int           // of them that may be unavailable
	back    time.Duration // after which an evicted pod is Ready again
	rate    int           // requests a second
	seconds int           // of the longest step; the others take a third
	budgets int           // that share no pod
}

var fullBudgets = budgetScale{pods: 2000, units: 30, back: 2 * time.Second, rate: 50, seconds: 60, budgets: 10}

func (s budgetScale) requests() int { return s.rate * s.seconds }
func (s budgetScale) few() int      { return s.rate * s.seconds / 3 }

// each is how many pods each of several services has. Two steps evict them, and they do not come
// back.
func (s budgetScale) each(services int) int { return 2*s.few()/services + 10 }

// measureBudgets has budgets judge requests of an API server, and returns what it saw.
func measureBudgets(ctx context.Context, p bed.Place, size budgetScale) (string, error) {
	r := budgetReport{size: size}
	err := live(ctx, p, scale{rate: size.rate}, &r.seen, &r, func(b *bench) []step[budgetReport] { return (&guarding{bench: b, size: size}).steps() })
	if err != nil {
		return "", err
	}
	return r.markdown(), nil
}

// guarding is a cluster whose pods have budgets.
type guarding struct {
	*bench

	size  budgetScale
	relay *relay
	one   *service   // with all the pods
	many  []*service // with a budget each
	peers []*service // with a budget, with a PodDisruptionBudget, and two with neither

	returns sync.WaitGroup // of evicted pods
}

func (g *guarding) steps() []step[budgetReport] {
	return []step[budgetReport]{
		{"make pods and budgets", g.build},
		{"requests for one budget", g.mixed},
		{"dry runs", g.dryRuns},
		{"requests for budgets that share no pod", g.independent},
		{"requests for all of them at the same moment", g.atOnce},
		{"evictions beside a PodDisruptionBudget", g.compare},
	}
}

// mixed asks one budget for more pods than it can permit to go. Evicted pods come back.
func (g *guarding) mixed(ctx context.Context, r *budgetReport) error {
	g.relay.take()
	_, err := g.steadily(ctx, g.size.rate, g.size.requests(), func(ctx context.Context, i int) error {
		passed, _, err := g.ask(ctx, g.one, i)
		if passed {
			g.returns.Go(func() { g.bringBack(ctx, g.one.pod(i)) })
		}
		return err
	})
	g.returns.Wait()
	r.written, r.refused = g.relay.takeBoth()
	return err
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
	n := len(g.many)
	_, err := g.steadily(ctx, g.size.rate, g.size.few(), func(ctx context.Context, i int) error {
		_, _, err := g.ask(ctx, g.many[i%n], i/n)
		return err
	})
	r.independent = g.relay.take()
	return err
}

// atOnce asks all budgets at the same moment, again and again.
func (g *guarding) atOnce(ctx context.Context, r *budgetReport) error {
	g.relay.take()
	n := len(g.many)
	_, err := g.steadily(ctx, max(1, g.size.rate/n), g.size.few()/n, func(ctx context.Context, turn int) error {
		return g.parallel(ctx, n, n, func(ctx context.Context, i int) error {
			_, _, err := g.ask(ctx, g.many[i], g.many[i].pods-1-turn) // from the other end
			return err
		})
	})
	r.atOnce = g.relay.take()
	return err
}
