package main

import (
	"context"
	"time"

	"github.com/limpet-io/limpet/test/bench/bed"
)

// spreadScale is how much of everything the measurement of spreads has.
type spreadScale struct {
	pods    int // that one spread covers
	rate    int // creations a second
	seconds int // of the longest step
	storm   int // creations and deletions through two replicas
	clients int // of the storm
	wanted  int // pods of the storm at a time
}

var fullSpreads = spreadScale{pods: 5000, rate: 50, seconds: 24, storm: 10_000, clients: 50, wanted: 100}

func (s spreadScale) creations() int { return s.rate * s.seconds }

// limit is the maximum of each of the two subsets that have one, of so many pods.
func (s spreadScale) limit(pods int) int { return pods * 2 / 5 }

// measureSpreads has a spread place the pods of an API server, and returns what it saw.
func measureSpreads(ctx context.Context, p bed.Place, size spreadScale) (string, error) {
	r := spreadReport{size: size}
	err := live(ctx, p, scale{rate: size.rate}, &r.seen, &r, func(b *bench) []step[spreadReport] { return (&spreading{bench: b, size: size}).steps() })
	if err != nil {
		return "", err
	}
	return r.markdown(), nil
}

// spreading is a cluster with spreads.
type spreading struct {
	*bench

	size  spreadScale
	relay *relay
	large *crowd // with all the pods
	plain *crowd // without a spread
}

func (g *spreading) steps() []step[spreadReport] {
	return []step[spreadReport]{
		{"fill a spread", g.fill},
		{"replace pods of limited subsets", g.replaceLimited},
		{"replace pods of the last subset, and pods without a spread", g.replaceLast},
		{"storm through two replicas", g.storm},
	}
}

// fill makes the pods of one spread and those without a spread.
func (g *spreading) fill(ctx context.Context, r *spreadReport) (err error) {
	if g.relay, err = g.relaySpreads(ctx); err != nil {
		return err
	}
	if g.plain, err = g.gather(ctx, "plain", g.size.creations(), false); err != nil {
		return err
	}
	if g.large, err = g.gather(ctx, "large", g.size.pods, true); err != nil {
		return err
	}
	g.relay.take()
	begin := time.Now()
	err = g.parallel(ctx, hands, g.size.pods, func(ctx context.Context, _ int) error { return g.large.grow(ctx) })
	r.fillRate = float64(g.size.pods) / time.Since(begin).Seconds()
	r.filling = g.relay.take()
	r.filled = g.large.counts()
	if err != nil {
		return err
	}
	return g.parallel(ctx, hands, g.size.creations()/2, func(ctx context.Context, _ int) error { return g.plain.grow(ctx) })
}

// replaceLimited replaces pods of the subsets that have a maximum: each creation takes an entry.
func (g *spreading) replaceLimited(ctx context.Context, r *spreadReport) (err error) {
	g.relay.take()
	_, err = g.steadily(ctx, g.size.rate, g.size.creations(), func(ctx context.Context, i int) error {
		_, err := g.large.replace(ctx, []string{"a", "b"}[i%2])
		return err
	})
	r.limited, r.refused = g.relay.takeBoth()
	r.replaced = g.large.counts()
	return err
}

// replaceLast replaces pods of the last subset, which has no maximum, and pods of a namespace
// without a spread in turns. The times are those of the client.
func (g *spreading) replaceLast(ctx context.Context, r *spreadReport) (err error) {
	g.relay.take()
	took := make([]time.Duration, g.size.creations())
	_, err = g.steadily(ctx, g.size.rate, g.size.creations(), func(ctx context.Context, i int) (err error) {
		from, subset := g.large, "c"
		if i%2 == 1 {
			from, subset = g.plain, ""
		}
		took[i], err = from.replace(ctx, subset)
		return err
	})
	for i, each := range took {
		if i%2 == 0 {
			r.withSpread = append(r.withSpread, each)
		} else {
			r.without = append(r.without, each)
		}
	}
	r.unlimited = g.relay.take()
	return err
}
