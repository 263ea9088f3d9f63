package ring

import (
	"slices"
	"testing"
)

// TestAdd sees pods go that are three apart, and then neighbours over the end of the ring.
func TestAdd(t *testing.T) {
	var r Result
	without := func(away ...int) (ready [pods]bool) {
		for i := range pods {
			ready[i] = !slices.Contains(away, i)
		}
		return ready
	}
	for _, away := range [][]int{nil, {0, 3, 6}, {0, 3, 6}, {4}} {
		r.add(without(away...))
	}
	if want := []string{" 0 1 2 3 4 5 6 7 8", " . 1 2 . 4 5 . 7 8", " 0 1 2 3 . 5 6 7 8"}; !slices.Equal(r.States, want) || r.Most != 3 || len(r.Together) > 0 {
		t.Errorf("%+v, want %q and 3 away", r, want)
	}
	if r.add(without(8, 1)); !slices.Equal(r.Together, []string{"ring-8 and ring-1"}) {
		t.Errorf("together: %q", r.Together)
	}
}
