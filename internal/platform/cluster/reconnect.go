package cluster

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	// attemptPause is the time between two attempts to reach an API server that is away; up to as much is
	// added at random.
	attemptPause = 250 * time.Millisecond
	// attemptLimit is how long attempts go on. The reflector of client-go goes on after that.
	attemptLimit = 30 * time.Second
)

// reconnecting lists and watches again soon while the API server is away. The reflector of client-go doubles
// its delays up to a minute. So the cache would stay behind for many seconds after a short outage, while
// webhooks decide from it already.
type reconnecting struct {
	from  toolscache.ListerWatcherWithContext
	clock clock.Clock
	// answered tells that the last request was allowed. An API server that starts refuses all, until it
	// has read who has which rights.
	answered atomic.Bool
}

func reconnect(lw toolscache.ListerWatcher, c clock.Clock) toolscache.ListerWatcher {
	r := &reconnecting{from: toolscache.ToListerWatcherWithContext(lw), clock: c}
	return &toolscache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

func (r *reconnecting) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return attempt(ctx, r, func() (runtime.Object, error) { return r.from.ListWithContext(ctx, o) })
}

func (r *reconnecting) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return attempt(ctx, r, func() (watch.Interface, error) { return r.from.WatchWithContext(ctx, o) })
}

// attempt asks until there is an answer, or an error that a server which is away or starts does not cause.
func attempt[T any](ctx context.Context, r *reconnecting, ask func() (T, error)) (T, error) {
	limit := r.clock.Now().Add(attemptLimit)
	for {
		got, err := ask()
		if err == nil {
			r.answered.Store(true)
			return got, nil
		}
		if !r.away(err) || r.clock.Now().After(limit) {
			r.answered.Store(false)
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-r.clock.After(wait.Jitter(attemptPause, 1)):
		}
	}
}

// away reports whether an API server that is away, or that starts, causes an error. Too many requests are
// none: then the longer delays of the reflector are right.
func (r *reconnecting) away(err error) bool {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return r.answered.Load()
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || apierrors.IsServiceUnavailable(err)
}
