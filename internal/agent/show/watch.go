package show

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

const (
	// watchFor is the shortest time after which the server ends a watch. The longest is twice as long.
	watchFor = 5 * time.Minute
	// leastRetry and mostRetry bound the wait after the second failure in a row, and later ones.
	leastRetry, mostRetry = time.Second, 2 * time.Minute
	// toldFailures is how many failures in a row are told in the log: an API server that starts again has fewer.
	toldFailures = 5
)

// watcher is told what a watch shows.
type watcher struct {
	see func(watch.EventType, *metav1.PartialObjectMetadata)
	// silent is called when a watch is open and shows nothing: the object is not there. It may be nil.
	silent func()
}

// keepWatching passes the events of one object to a watcher until ctx ends.
func (l *Loop) keepWatching(ctx context.Context, resource, name string, to watcher) {
	l.keepOpen(ctx, func(atMost time.Duration) error { return l.watchOnce(ctx, resource, name, atMost, to) })
}

// keepOpen opens a watch again and again until ctx ends. A watch that ends at its time is opened again at once. One
// that ends earlier has lost its server, as those of all agents have.
func (l *Loop) keepOpen(ctx context.Context, once func(atMost time.Duration) error) {
	for failures := 0; ctx.Err() == nil; {
		atMost := watchFor + time.Duration(l.Random()*float64(watchFor))
		opened := l.Clock.Now()
		err := once(atMost)
		lasted := l.Clock.Since(opened)
		if err == nil && lasted >= atMost-time.Second {
			failures = 0
			continue
		}
		if lasted >= watchFor {
			failures = 0
		}
		failures++
		if failures == toldFailures && err != nil && ctx.Err() == nil {
			l.Log.Error(err, "Watch fails, and is tried again", "failures", failures)
		}
		l.sleep(ctx, plan.Reopen(failures, leastRetry, mostRetry, l.Pace.Reconnect, plan.Asked(err), l.Random()))
	}
}

// watchOnce passes events to see until the watch ends. An error tells why it could not be opened or was ended.
func (l *Loop) watchOnce(ctx context.Context, resource, name string, atMost time.Duration, to watcher) error {
	w, err := l.Client.watchNamed(ctx, resource, name, atMost)
	if err != nil {
		return fmt.Errorf("watch %s %s: %w", resource, name, err)
	}
	defer w.Stop()
	first := time.NewTimer(firstEvent) // the time of the network, as in a timeout
	defer first.Stop()
	for shown := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-first.C:
			if !shown && to.silent != nil {
				to.silent()
			}
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				return fmt.Errorf("watch %s %s: %w", resource, name, apierrors.FromObject(e.Object))
			}
			if o, ok := e.Object.(*metav1.PartialObjectMetadata); ok && o.Name == name {
				shown = true
				to.see(e.Type, o)
			}
		}
	}
}

// sleep waits for a time, or until ctx ends.
func (l *Loop) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := l.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
