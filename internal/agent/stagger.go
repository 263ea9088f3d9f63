package agent

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/show"
)

// stagger delays the requests of a cache, so that thousands of agents whose watches broke at the same
// moment do not come back together.
type stagger struct {
	clock  clock.WithTicker
	within time.Duration

	mu     sync.Mutex
	next   time.Duration // before the next request, a random part of it is waited for
	opened time.Time     // when the last watch was opened
	atMost time.Duration // after which the server ends it
}

// newStagger returns a stagger whose first request comes within a time of its own.
func newStagger(c Config, first, within time.Duration) *stagger {
	return &stagger{clock: c.Clock, within: within, next: first}
}

// listWatch returns the requests of another one, delayed.
func (s *stagger) listWatch(of *toolscache.ListWatch) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			s.wait(ctx)
			list, err := of.ListWithContext(ctx, o)
			s.done(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.reopens()
			s.wait(ctx)
			w, err := of.WatchWithContext(ctx, o)
			s.done(err)
			s.opens(o, err)
			return w, err
		},
	}
}

// reopens notes a watch that ended before its time: it has lost its server.
func (s *stagger) reopens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened.IsZero() && s.clock.Since(s.opened) < s.atMost-time.Second {
		s.next = s.within
	}
	s.opened = time.Time{}
}

func (s *stagger) opens(o metav1.ListOptions, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && o.TimeoutSeconds != nil {
		s.opened, s.atMost = s.clock.Now(), time.Duration(*o.TimeoutSeconds)*time.Second
	}
}

// done notes how a request ended. An answer that the version is too old needs another request at once.
func (s *stagger) done(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = 0
	if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) && !apierrors.IsInvalid(err) {
		s.next = s.within
	}
}

func (s *stagger) wait(ctx context.Context) {
	s.mu.Lock()
	next := s.next
	s.mu.Unlock()
	show.Sleep(ctx, s.clock, time.Duration(rand.Float64()*float64(next)))
}
