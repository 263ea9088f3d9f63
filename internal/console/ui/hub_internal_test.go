package ui

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/testenv"
)

// looks counts the looks of a hub, each of which finds the same but for the last namespace put into it.
type looks struct {
	n         atomic.Int64
	takes     time.Duration
	namespace atomic.Value
	clock     *clocktesting.FakeClock
}

func (l *looks) look(context.Context) (board.Board, error) {
	l.n.Add(1)
	l.clock.Step(l.takes)
	name, _ := l.namespace.Load().(string)
	if name == "broken" {
		return board.Board{}, errors.New("no answer")
	}
	return board.Board{Namespace: name}, nil
}

func (l *looks) await(t *testing.T, n int64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got := l.n.Load(); got != n || !l.clock.HasWaiters() {
			return errors.New("the looks, or the pause after them, are missing")
		}
		return nil
	})
}

func running(t *testing.T, takes time.Duration) (*Hub, *looks) {
	t.Helper()
	l := &looks{takes: takes, clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))}
	h := NewHub(l.look, l.clock, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return h, l
}

func TestNothingIsReadWhileNoPageIsOpen(t *testing.T) {
	h, l := running(t, 0)
	if !h.open() {
		t.Fatal("the first page is refused")
	}
	l.await(t, 1)
	h.close()
	l.clock.Step(time.Hour)
	testenv.Eventually(t, func() error { // the hub waits for a page now, and not for the clock
		if l.clock.HasWaiters() || len(h.opened) > 0 {
			return errors.New("the hub has not seen that the page was closed")
		}
		return nil
	})
	if n := l.n.Load(); n != 1 {
		t.Fatalf("%d looks without an open page, want the 1 of the page before", n)
	}
	h.open()
	l.await(t, 2)
}

func TestALongLookIsFollowedByALongPause(t *testing.T) {
	h, l := running(t, 10*time.Second)
	h.open()
	l.await(t, 1)
	l.clock.Step(39 * time.Second)
	if !l.clock.HasWaiters() {
		t.Fatal("the pause after a look of 10 s ended within 39 s")
	}
	l.clock.Step(time.Second)
	l.await(t, 2)
}

func TestPagesShareTheirLooks(t *testing.T) {
	h, l := running(t, 0)
	for range mostPages {
		if !h.open() {
			t.Fatal("a page is refused")
		}
	}
	if h.open() {
		t.Errorf("more than %d pages may be open", mostPages)
	}
	l.await(t, 1)
	l.clock.Step(5 * time.Second)
	l.await(t, 2)
}

func TestNewsAreToldOnce(t *testing.T) {
	h, l := running(t, 0)
	seen := 0
	tell := func(namespace string) (events []string) {
		t.Helper()
		l.namespace.Store(namespace)
		_, changed := h.now()
		if seen == 0 {
			h.open()
		} else {
			l.await(t, l.n.Load())
			l.clock.Step(5 * time.Second)
		}
		<-changed
		latest, _ := h.now()
		for _, e := range latest.since(seen) {
			events = append(events, string(e))
		}
		seen = latest.version
		return events
	}
	for _, step := range []struct{ namespace, event string }{
		{"a", "event: board\ndata: {"},
		{"a", "event: same\ndata: {\"at\""},
		{"b", "event: board\ndata: {"},
		{"broken", "event: trouble\ndata: {\"text\":\"no answer\"}\n\n"},
		{"b", "event: same\ndata: {"},
	} {
		if got := tell(step.namespace); len(got) != 1 || got[0][:len(step.event)] != step.event {
			t.Errorf("namespace %s: %q, want one that begins with %q", step.namespace, got, step.event)
		}
	}
	if got := (found{version: 3, board: []byte("{}"), trouble: "gone"}).since(0); len(got) != 2 {
		t.Errorf("a page that opens in trouble gets %q, want the last board and the trouble", got)
	}
}
