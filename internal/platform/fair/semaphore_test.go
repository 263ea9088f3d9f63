package fair_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// entrance is a request of a test.
type entrance struct {
	begun atomic.Bool
	leave chan struct{}
}

// enter makes a request, in a bubble of synctest. It begins at once, or waits.
func enter(t *testing.T, s *fair.Semaphore[string], key string, weight int) *entrance {
	t.Helper()
	e := &entrance{leave: make(chan struct{})}
	go func() {
		leave, err := s.Enter(t.Context(), key, weight)
		if err != nil {
			t.Error(err)
			return
		}
		e.begun.Store(true)
		<-e.leave
		leave()
	}()
	synctest.Wait()
	return e
}

func (e *entrance) end() {
	close(e.leave)
	synctest.Wait()
}

func begun(t *testing.T, what string, e *entrance, want bool) {
	t.Helper()
	if got := e.begun.Load(); got != want {
		t.Errorf("%s is inside: %t, want %t", what, got, want)
	}
}

func TestAKeyLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSemaphore[string](fair.Bounds{Each: 200, All: 600})
		first := enter(t, s, "tenant", 2000) // alone, although it weighs more than a key may have
		second, other := enter(t, s, "tenant", 1), enter(t, s, "other", 200)
		begun(t, "the first request", first, true)
		begun(t, "a second request of the key", second, false)
		begun(t, "a request of another key", other, true)
		first.end()
		begun(t, "the second request after the first", second, true)
		second.end()
		other.end()
		if n := s.Requests(); n != 0 {
			t.Errorf("%d requests at the end", n)
		}
	})
}

func TestAllKeysTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSemaphore[string](fair.Bounds{Each: 200, All: 600})
		first, b, c := enter(t, s, "a", 200), enter(t, s, "b", 200), enter(t, s, "c", 200)
		large, small := enter(t, s, "d", 200), enter(t, s, "e", 1)
		begun(t, "a request beyond the bound of all", large, false)
		begun(t, "a request that came later", small, false)
		first.end()
		begun(t, "the large request after one of the others", large, true)
		begun(t, "the small request", small, false)
		large.end()
		begun(t, "the small request after the large one", small, true)
		small.end()
		b.end()
		c.end()
	})
}

// However many requests of a key wait for room in all, one of another key waits for one of them.
func TestKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSemaphore[string](fair.Bounds{All: 1})
		first := enter(t, s, "tenant", 1)
		var many []*entrance
		for range 100 {
			many = append(many, enter(t, s, "tenant", 1))
		}
		shop := enter(t, s, "shop", 1)
		first.end()
		begun(t, "a request that waited", many[0], true)
		many[0].end()
		begun(t, "the request of another key", shop, true)
		shop.end()
		for _, e := range many[1:] {
			begun(t, "the next request", e, true)
			e.end()
		}
	})
}

func TestFewRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSemaphore[string](fair.Bounds{Each: 1, Waiting: 2, Requests: 4})
		inside := []*entrance{enter(t, s, "tenant", 1), enter(t, s, "tenant", 1), enter(t, s, "tenant", 1)}
		if _, err := s.Enter(t.Context(), "tenant", 1); !errors.Is(err, fair.ErrCrowded) {
			t.Errorf("a third request that waits: %v, want %v", err, fair.ErrCrowded)
		}
		inside = append(inside, enter(t, s, "shop", 1))
		begun(t, "a request of another key", inside[3], true)
		if _, err := s.Enter(t.Context(), "bank", 1); !errors.Is(err, fair.ErrCrowded) {
			t.Errorf("a request beyond those of all: %v, want %v", err, fair.ErrCrowded)
		}
		for _, e := range inside {
			e.end()
		}
	})
}

func TestARequestWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fair.NewSemaphore[string](fair.Bounds{All: 2})
		first, second := enter(t, s, "a", 1), enter(t, s, "b", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error)
		go func() {
			_, err := s.Enter(ctx, "a", 2)
			ended <- err
		}()
		synctest.Wait()
		behind := enter(t, s, "c", 1)
		first.end()
		begun(t, "a request behind a large one", behind, false)
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request whose time is over: %v", err)
		}
		synctest.Wait()
		begun(t, "the request behind one that waits no longer", behind, true)
		second.end()
		behind.end()
	})
}

// Requests of many keys come, wait, give up and leave at once: no bound is exceeded, none is forgotten.
func TestBoundsHoldUnderLoad(t *testing.T) {
	const each, all, keys = 3, 10, 8
	s := fair.NewSemaphore[string](fair.Bounds{Each: each, All: all})
	var total atomic.Int64
	var of [keys]atomic.Int64
	var running sync.WaitGroup
	for worker := range 64 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 300 {
				key, weight := random.IntN(keys), 1+random.IntN(each)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				leave, err := s.Enter(ctx, fmt.Sprint(key), weight)
				cancel()
				if err != nil {
					continue
				}
				if now := total.Add(int64(weight)); now > all {
					t.Errorf("%d are inside, want at most %d", now, all)
				}
				if now := of[key].Add(int64(weight)); now > each {
					t.Errorf("%d of a key are inside, want at most %d", now, each)
				}
				of[key].Add(-int64(weight))
				total.Add(-int64(weight))
				leave()
			}
		})
	}
	running.Wait()
	if lines, ready := s.Remembered(); s.Requests() != 0 || lines != 0 || ready != 0 {
		t.Errorf("%d requests are left, of %d keys, %d ready", s.Requests(), lines, ready)
	}
}
