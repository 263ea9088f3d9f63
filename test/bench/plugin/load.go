package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// load is a number of processes at once, each an ADD and then a DEL of a pod of its own.
type load struct {
	used      int // addresses in use
	processes int
	turns     int // of each candidate
	turn      time.Duration
}

var loads = []load{
	{0, 1, 2, 2 * time.Second},
	{0, 8, 2, 2 * time.Second},
	{0, 32, 2, 3 * time.Second},
	{0, 200, 2, 3 * time.Second},
	{10_000, 1, 2, 3 * time.Second},
	{10_000, 8, 2, 4 * time.Second},
	{10_000, 32, 4, 6 * time.Second},
	{10_000, 200, 1, 20 * time.Second},
}

// loadResult holds the measurements of a load.
type loadResult struct {
	load
	hostLocal, limpet throughput
	starts            throughput // pairs of VERSION
}

// throughput holds the duration of each pair, and of the turns.
type throughput struct {
	measure.Sample
	busy time.Duration
}

// perSecond returns the number of pairs in a second.
func (t throughput) perSecond() float64 { return float64(len(t.Sample)) / t.busy.Seconds() }

// seconds prints the median and the slowest pair.
func (t throughput) seconds() string {
	return fmt.Sprintf("%.2f / %.2f s", t.Median().Seconds(), t.Worst().Seconds())
}

func (l load) name() string { return fmt.Sprintf("%d at once, %d in use", l.processes, l.used) }

func (l load) run(ctx context.Context, b bench) (loadResult, error) {
	r := loadResult{load: l}
	dir, err := os.MkdirTemp(b.dir, "load-")
	if err != nil {
		return r, fmt.Errorf("measure: %w", err)
	}
	defer b.remove(dir)
	limpet, hostLocal := newLimpet(b.binaries, dir), newHostLocal(b.binaries, dir)
	for _, c := range []*candidate{limpet, hostLocal} {
		if err := c.fill(ctx, c.dir, l.used); err != nil {
			return r, err
		}
	}
	for i := range l.turns {
		b.progress(l.name(), i, l.turns)
		err := errors.Join(l.generate(ctx, hostLocal.pair, &r.hostLocal), l.generate(ctx, limpet.pair, &r.limpet), l.generate(ctx, limpet.startTwice, &r.starts))
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// generate starts pairs until the turn is over, and waits for the last ones.
func (l load) generate(ctx context.Context, pair func(context.Context, string) (time.Duration, error), to *throughput) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		all   error
		begin = time.Now()
	)
	for w := range l.processes {
		wg.Go(func() {
			for i := 0; i == 0 || time.Since(begin) < l.turn; i++ {
				took, err := pair(ctx, fmt.Sprintf("load-%d-%d", w, i))
				mu.Lock()
				to.Sample, all = append(to.Sample, took), errors.Join(all, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	to.busy += time.Since(begin)
	return all
}
