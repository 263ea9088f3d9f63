package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// skipping is a clock on which each wait is over at once, and has taken its time.
type skipping struct{ *clocktesting.FakeClock }

func (c skipping) After(d time.Duration) <-chan time.Time {
	over := c.FakeClock.After(d)
	c.Step(d)
	return over
}

var (
	errRefused     = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	errForbidden   = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("RBAC: not found"))
	errOverloaded  = apierrors.NewTooManyRequests("overloaded", 1)
	errUnavailable = apierrors.NewServiceUnavailable("starting")
)

// A server answers each request by the next error, and then by the last one; nil is a success.
type server struct {
	answers []error
	asked   int
}

func (s *server) answer() error {
	err := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	return err
}

func (s *server) listWatch() toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &limpetv1alpha1.NodeIPPoolList{}, s.answer()
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), s.answer()
		},
	}
}

func TestCachesReconnectSoon(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		asked   int
		want    error
		within  time.Duration
	}{
		"a server that answers":       {[]error{nil}, 1, nil, 0},
		"a server that is away":       {[]error{errRefused, errRefused, errUnavailable, nil}, 4, nil, 3 * time.Second / 2},
		"a server that is overloaded": {[]error{errOverloaded, nil}, 1, errOverloaded, 0},
		"a right that was never had":  {[]error{errForbidden, nil}, 1, errForbidden, 0},
		"a bad request":               {[]error{context.DeadlineExceeded, nil}, 1, context.DeadlineExceeded, 0},
	} {
		for verb, ask := range map[string]func(toolscache.ListerWatcherWithContext) error{"list": list, "watch": watched} {
			t.Run(name+", "+verb, func(t *testing.T) {
				s, clock := &server{answers: c.answers}, skipping{clocktesting.NewFakeClock(time.Unix(0, 0))}
				err := ask(toolscache.ToListerWatcherWithContext(cluster.Reconnect(s.listWatch(), clock)))
				if !errors.Is(err, c.want) || s.asked != c.asked {
					t.Errorf("%v after %d requests, want %v after %d", err, s.asked, c.want, c.asked)
				}
				if took := clock.Since(time.Unix(0, 0)); took > c.within {
					t.Errorf("it took %s, want %s at most", took, c.within)
				}
			})
		}
	}
}

// An API server that starts refuses what it allowed before, until it has read the rights. A right that
// was taken away is asked for during half a minute, and then left to the delays of the reflector.
func TestARefusalAfterAnAnswerMayEnd(t *testing.T) {
	s, clock := &server{answers: []error{nil, errForbidden, errForbidden, nil, errForbidden}}, skipping{clocktesting.NewFakeClock(time.Unix(0, 0))}
	lw := toolscache.ToListerWatcherWithContext(cluster.Reconnect(s.listWatch(), clock))
	for i, want := range []error{nil, nil, errForbidden} {
		if err := list(lw); !errors.Is(err, want) {
			t.Errorf("request %d: %v, want %v", i+1, err, want)
		}
	}
	if took := clock.Since(time.Unix(0, 0)); took < 30*time.Second || took > time.Minute {
		t.Errorf("the attempts took %s, want about half a minute", took)
	}
	if s.asked > 150 {
		t.Errorf("%d requests for a right that is gone, want some for each second", s.asked)
	}
	before := s.asked
	if err := list(lw); !errors.Is(err, errForbidden) || s.asked != before+1 {
		t.Errorf("%v after %d more requests, want one", err, s.asked-before)
	}
}

func TestAttemptsEndWithTheCache(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &server{answers: []error{errRefused}}
	lw := toolscache.ToListerWatcherWithContext(cluster.Reconnect(s.listWatch(), clocktesting.NewFakeClock(time.Unix(0, 0))))
	if _, err := lw.ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, errRefused) || s.asked != 1 {
		t.Errorf("%v after %d requests, want %v after one", err, s.asked, errRefused)
	}
}

func list(lw toolscache.ListerWatcherWithContext) error {
	_, err := lw.ListWithContext(context.Background(), metav1.ListOptions{})
	return err
}

func watched(lw toolscache.ListerWatcherWithContext) error {
	w, err := lw.WatchWithContext(context.Background(), metav1.ListOptions{})
	if err == nil {
		w.Stop()
	}
	return err
}
