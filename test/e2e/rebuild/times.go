package rebuild

import (
	"context"
	"fmt"
	"time"
)

// watch observes the pods of a step until all are rebuilt or ctx ends. It measures the time
// from the end of each pod until the rebuilt pod is Ready. A pod whose end was not observed,
// because only its sandbox was replaced, is measured from the beginning of the step.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
	took   map[string]time.Duration
	last   map[string]Seen
}

func startWatch(ctx context.Context, r *Runner, pods []string) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{cancel: cancel, done: make(chan struct{}), took: map[string]time.Duration{}}
	go func() {
		defer close(w.done)
		start, ended := time.Now(), map[string]time.Time{}
		for ctx.Err() == nil && len(w.took) < len(pods) {
			if seen, err := r.observe(ctx); err == nil {
				w.last = seen
				w.note(pods, r.before, start, ended)
			}
			select {
			case <-ctx.Done():
			case <-time.After(25 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *watch) note(pods []string, before map[string]Seen, start time.Time, ended map[string]time.Time) {
	now := time.Now()
	for _, p := range pods {
		s, there := w.last[p]
		rebuilt := Rebuilt(before[p], s)
		if lives := there && s.UID == before[p].UID && !s.Deleting && s.Ready; !lives && ended[p].IsZero() {
			ended[p] = now
		}
		if _, known := w.took[p]; !rebuilt || known {
			continue
		}
		if ended[p].IsZero() || ended[p].Equal(now) {
			ended[p] = start
		}
		w.took[p] = now.Sub(ended[p])
	}
}

// wait waits until all pods are rebuilt, or returns an error after the limit.
func (w *watch) wait(limit time.Duration, pods []string) error {
	select {
	case <-w.done:
	case <-time.After(limit):
	}
	w.stop()
	for _, p := range pods {
		if _, ok := w.took[p]; !ok {
			return fmt.Errorf("%s was not rebuilt within %s: %+v", p, limit, w.last[p])
		}
	}
	return nil
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}
