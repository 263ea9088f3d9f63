package show

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

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

// watcher is a watch that is opened again and again, and those whom its events concern.
type watcher struct {
	what string
	open func(ctx context.Context, atMost time.Duration) (watch.Interface, error)
	see  func(watch.EventType, runtime.Object)
	// opened is called when the watch is open, and silent when it shows nothing: the object is not there. Both may be nil.
	opened, silent func()
}

// keepWatching passes the events of one object of the core group to see until ctx ends.
func (l *Loop) keepWatching(ctx context.Context, resource, name string, silent func(), see func(watch.EventType, *metav1.PartialObjectMetadata)) {
	l.keepOpen(ctx, watcher{
		what: resource + " " + name, silent: silent,
		open: func(ctx context.Context, atMost time.Duration) (watch.Interface, error) {
			return l.Client.watchNamed(ctx, resource, name, atMost)
		},
		see: func(e watch.EventType, o runtime.Object) {
			if o, ok := o.(*metav1.PartialObjectMetadata); ok {
				see(e, o)
			}
		},
	})
}

// keepOpen opens a watch again and again until ctx ends. A watch that ends at its time is opened again at once. One
// that ends earlier has lost its server, as those of all agents have.
func (l *Loop) keepOpen(ctx context.Context, w watcher) {
	for failures := 0; ctx.Err() == nil; {
		atMost := watchFor + time.Duration(l.Random()*float64(watchFor))
		opened := l.Clock.Now()
		err := w.once(ctx, atMost)
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
		Sleep(ctx, l.Clock, plan.Reopen(failures, leastRetry, mostRetry, l.Pace.Reconnect, plan.Asked(err), l.Random()))
	}
}

// once passes events to see until the watch ends. An error tells why it could not be opened or was ended.
func (w watcher) once(ctx context.Context, atMost time.Duration) error {
	open, err := w.open(ctx, atMost)
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.what, err)
	}
	defer open.Stop()
	if w.opened != nil {
		w.opened()
	}
	first := time.NewTimer(firstEvent) // the time of the network, as in a timeout
	defer first.Stop()
	for shown := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-first.C:
			if !shown && w.silent != nil {
				w.silent()
			}
		case e, more := <-open.ResultChan():
			if !more {
				return nil
			}
			if e.Type == watch.Error {
				return fmt.Errorf("watch %s: %w", w.what, apierrors.FromObject(e.Object))
			}
			shown = true
			w.see(e.Type, e.Object)
		}
	}
}

// Sleep waits for a time, or until ctx ends.
func Sleep(ctx context.Context, c clock.WithTicker, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
