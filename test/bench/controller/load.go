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

// parallel runs do for 0 to n-1 with many hands, and says now and then how far it is.
func (b *bench) parallel(ctx context.Context, hands, n int, do func(context.Context, int) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		next int
		all  error
	)
	take := func(failed error) (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		all = errors.Join(all, failed)
		if all != nil || next == n || ctx.Err() != nil {
			return 0, false
		}
		if next%1000 == 0 && n > 1000 {
			fmt.Fprintf(os.Stderr, "%5.0fs    %d of %d\n", time.Since(b.begin).Seconds(), next, n)
		}
		next++
		return next - 1, true
	}
	for range hands {
		wg.Go(func() {
			for i, more := take(nil); more; {
				i, more = take(do(ctx, i))
			}
		})
	}
	wg.Wait()
	return errors.Join(all, ctx.Err())
}

// steadily starts do for 0 to n-1 at a rate, whether or not the earlier ones are
// through, and returns how long each took.
func (b *bench) steadily(ctx context.Context, rate, n int, do func(context.Context, int) error) (measure.Sample, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		all    error
		sample = make(measure.Sample, n)
		tick   = time.NewTicker(time.Second / time.Duration(rate))
	)
	defer tick.Stop()
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			wg.Wait()
			return nil, ctx.Err()
		}
		wg.Go(func() {
			begin := time.Now()
			err := do(ctx, i)
			sample[i] = time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			all = errors.Join(all, err)
		})
	}
	wg.Wait()
	return sample, all
}
