package books

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
)

// asks is a note of a refused request.
func asks(pod string, at time.Time) func(ledger.Book) (ledger.Book, bool) {
	return func(b ledger.Book) (ledger.Book, bool) {
		return ledger.Ask(b, ledger.Waiting{UID: "1", Pod: pod, By: "client", Since: at, Last: at})
	}
}

func waiting(b ledger.Book) (pods []string) {
	for _, w := range b.Waiting {
		pods = append(pods, w.Pod)
	}
	return pods
}

// hasWritten waits until the book of a namespace has these requests.
func hasWritten(t *testing.T, ns string, want []string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got := waiting(live(t, OfBudgets(ns))); !slices.Equal(got, want) {
			return fmt.Errorf("waiting %v, want %v", got, want)
		}
		return nil
	})
}

// settled waits until no note waits.
func settled(t *testing.T, b *Books) {
	t.Helper()
	testenv.Eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.notes)+len(b.lanes) > 0 {
			return fmt.Errorf("notes of %d books wait, %d lanes run", len(b.notes), len(b.lanes))
		}
		return nil
	})
}

// A burst of refusals is one write, or few.
func TestNotesAreWrittenTogether(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	mustDecide(t, b, ns, take("a"))
	now := time.Now()
	var want []string
	for i := range 100 {
		pod := fmt.Sprintf("pod-%03d", i)
		b.Note(t.Context(), OfBudgets(ns), asks(pod, now))
		want = append(want, pod)
	}
	hasWritten(t, ns, want)
	settled(t, b)
	if n := object(t, ns).Generation; n > 4 {
		t.Errorf("%d writes for 100 notes", n-1)
	}
	b.Note(t.Context(), OfBudgets(ns), asks("pod-000", now.Add(time.Second))) // the same request again
	before := object(t, ns).Generation
	settled(t, b)
	if after := object(t, ns).Generation; after != before {
		t.Error("a note without news was written")
	}
}

// The next decision of this replica sees a note before it is written, and writes it.
func TestADecisionSeesAndWritesTheNotes(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	mustDecide(t, b, ns, take("a"))
	now := time.Now()
	b.Note(t.Context(), OfBudgets(ns), asks("b", now))
	b.Note(t.Context(), OfBudgets(ns), asks("c", now))
	var seen []string
	mustDecide(t, b, ns, func(book ledger.Book) (ledger.Book, bool) {
		seen = waiting(book)
		e := entry("b")
		e.By = "client"
		return ledger.Take(book, e)
	})
	if diff := cmp.Diff([]string{"b", "c"}, seen); diff != "" {
		t.Errorf("the decision saw (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c"}, waiting(live(t, OfBudgets(ns)))); diff != "" {
		t.Errorf("waiting after b was allowed (-want +got):\n%s", diff)
	}
	settled(t, b)
	if diff := cmp.Diff([]string{"c"}, waiting(live(t, OfBudgets(ns)))); diff != "" {
		t.Errorf("waiting when nothing is left to write (-want +got):\n%s", diff)
	}
}

// A conflict with another replica loses neither notes nor the entries of the other replica.
func TestNotesSurviveAConflict(t *testing.T) {
	ns, b, other := env.Namespace(t), replica(t), replica(t)
	mustDecide(t, b, ns, take("a"))
	now := time.Now()
	old := &oldCache{Reader: env.Client, book: *object(t, ns)}
	b = New(Options{Client: env.Client, Live: env.Client, Cached: old, Clock: clock.RealClock{}})
	mustDecide(t, other, ns, take("b"))
	b.Note(t.Context(), OfBudgets(ns), asks("c", now))
	hasWritten(t, ns, []string{"c"})
	if diff := cmp.Diff([]string{"a", "b"}, pods(live(t, OfBudgets(ns)))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// Notes of a book that cannot be written are forgotten, and do not add up.
func TestNotesThatCannotBeWrittenAreDropped(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	for range 2 * ledger.MostWaiting { // of a book that does not exist
		b.Note(t.Context(), OfBudgets(ns), asks("pod", time.Now()))
	}
	b.mu.Lock()
	n := len(b.notes[OfBudgets(ns).object])
	b.mu.Unlock()
	if n > ledger.MostWaiting {
		t.Errorf("%d notes wait, at most %d may", n, ledger.MostWaiting)
	}
	settled(t, b)
}

// A note does not wait for the API server.
func TestANoteDoesNotWait(t *testing.T) {
	ns := env.Namespace(t)
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, take("first"))
	before, release := traffic.Count(nameOfBudgets), traffic.Hold(t, "/disruptionbooks/"+nameOfBudgets)
	b.Note(t.Context(), OfBudgets(ns), asks("pod", time.Now()))
	testenv.Eventually(t, func() error { // the write of the note is held
		if traffic.Count(nameOfBudgets) == before {
			return errors.New("no request is held up")
		}
		return nil
	})
	b.Note(t.Context(), OfBudgets(ns), asks("pod-2", time.Now()))
	if got := waiting(live(t, OfBudgets(ns))); len(got) > 0 {
		t.Errorf("%v waits, although no write has ended", got)
	}
	release()
	hasWritten(t, ns, []string{"pod", "pod-2"})
	settled(t, b)
}
