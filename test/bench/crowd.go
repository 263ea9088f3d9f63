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

// crowd is many processes at once, each an ADD and then a DEL of a pod of its own.
type crowd struct {
	used      int // addresses in use
	processes int
	slices    int // turns of each contender
	slice     time.Duration
}

var crowds = []crowd{
	{0, 1, 2, 2 * time.Second},
	{0, 8, 2, 2 * time.Second},
	{0, 32, 2, 3 * time.Second},
	{0, 200, 2, 3 * time.Second},
	{10_000, 1, 2, 3 * time.Second},
	{10_000, 8, 2, 4 * time.Second},
	{10_000, 32, 4, 6 * time.Second},
	{10_000, 200, 1, 20 * time.Second},
}

// throng is what came of a crowd.
type throng struct {
	crowd
	theirs, ours flow
}

// flow is how much got through, and how long each pair took.
type flow struct {
	measure.Sample
	busy time.Duration
}

// perSecond returns the pairs that got through in a second.
func (f flow) perSecond() float64 { return float64(len(f.Sample)) / f.busy.Seconds() }

func (c crowd) name() string { return fmt.Sprintf("%d at once, %d in use", c.processes, c.used) }

func (c crowd) run(ctx context.Context, b bench) (throng, error) {
	t := throng{crowd: c}
	dir, err := os.MkdirTemp(b.dir, "crowd-")
	if err != nil {
		return t, fmt.Errorf("measure: %w", err)
	}
	defer b.remove(dir)
	ours, theirs := limpet(b.binaries, dir), hostLocal(b.binaries, dir)
	for _, o := range []*contender{ours, theirs} {
		if err := o.fill(ctx, o.dir, c.used); err != nil {
			return t, err
		}
	}
	for i := range c.slices {
		b.progress(c.name(), i, c.slices)
		if err := errors.Join(c.press(ctx, theirs, &t.theirs), c.press(ctx, ours, &t.ours)); err != nil {
			return t, err
		}
	}
	return t, nil
}

// press starts pairs until the slice is over, and waits for those that run.
func (c crowd) press(ctx context.Context, who *contender, to *flow) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		all   error
		begin = time.Now()
	)
	for w := range c.processes {
		wg.Go(func() {
			for i := 0; i == 0 || time.Since(begin) < c.slice; i++ {
				took, err := who.pair(ctx, fmt.Sprintf("crowd-%d-%d", w, i))
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
