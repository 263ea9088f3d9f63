package fair_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

func TestObjectsRest(t *testing.T) {
	var r fair.Rests[string]
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	left := func(of string, at, want time.Duration) {
		t.Helper()
		if got := r.Left(of, now.Add(at)); got != want {
			t.Errorf("after %v, %s rests for %v, want %v", at, of, got, want)
		}
	}
	left("large", 0, 0)
	r.Begin("large", now, time.Second)
	r.Begin("small", now, 0)
	left("large", time.Millisecond, 999*time.Millisecond)
	left("large", time.Second, 0)
	left("small", 0, 0)
	r.Begin("large", now, 0) // it was deleted, or made smaller
	left("large", 0, 0)
	r.Begin("large", now, time.Second)
	r.Begin("other", now.Add(time.Hour), time.Second)
	if n := r.Len(); n != 1 {
		t.Errorf("%d rests are remembered, want the last one", n)
	}
}

// Few rests begin, however many objects there are.
func TestRestsAreBounded(t *testing.T) {
	var r fair.Rests[int]
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	begun := 0
	for i := range 100 {
		if r.Take(i, now, time.Second, 10) {
			begun++
		}
	}
	if again := r.Take(0, now, time.Second, 100); begun != 10 || again {
		t.Errorf("%d rests began, and one again: %t; want 10", begun, again)
	}
	if !r.Take(0, now.Add(time.Second), time.Second, 10) {
		t.Error("no rest begins after the others")
	}
}
