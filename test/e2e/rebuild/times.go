package rebuild

import (
	"context"
	"time"
)

// times measures, for each pod of a step, from the moment it is seen to end until its
// successor is seen Ready.
type times struct {
	cancel context.CancelFunc
	result chan map[string]time.Duration
}

func watchTimes(ctx context.Context, r *Runner, pods []string) *times {
	ctx, cancel := context.WithCancel(ctx)
	t := &times{cancel: cancel, result: make(chan map[string]time.Duration, 1)}
	before := r.before
	go func() {
		ended, took := map[string]time.Time{}, map[string]time.Duration{}
		for ctx.Err() == nil {
			seen, err := r.observe(ctx)
			now := time.Now()
			for _, p := range pods {
				if err != nil {
					break
				}
				s, there := seen[p]
				lives := there && s.UID == before[p].UID && !s.Deleting && s.Ready && s.Restarts == before[p].Restarts
				if !lives && ended[p].IsZero() {
					ended[p] = now
				}
				if Rebuilt(before[p], s) && took[p] == 0 {
					took[p] = now.Sub(ended[p])
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(25 * time.Millisecond):
			}
		}
		t.result <- took
	}()
	return t
}

func (t *times) stop() map[string]time.Duration {
	t.cancel()
	return <-t.result
}
