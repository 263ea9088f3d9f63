package chaos_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"

	"github.com/limpet-io/limpet/test/e2e/chaos"
)

// TestSights asks sights how far watches were behind. Changes of pods came at 1, 2 and 3 seconds. The watch of pods
// showed the first one at 1, and the second and third one at 8. A StatefulSet's came at 2, and was shown at 2.
func TestSights(t *testing.T) {
	events := []disruptions.Event{
		{Resource: "pods", Version: 10, Done: at(1)},
		{Resource: "pods", Version: 20, Done: at(2)},
		{Resource: "pods", Version: 30, Done: at(3)},
		{Resource: "statefulsets", Version: 25, Done: at(2)},
		{Resource: "pods", Version: 99, Done: at(100)}, // never shown
		{Resource: "nodes", Version: 5, Done: at(0)},
		{Resource: "pods", Done: at(0)},
	}
	s := chaos.NewSights()
	s.Show("pods", 10, at(1))
	s.Show("statefulsets", 25, at(2))
	s.Show("pods", 30, at(8))
	s.Show("pods", 12, at(9)) // an older version tells nothing
	seen := s.Seen(events)
	for now, want := range map[int]int{0: 0, 1: 1, 4: 2, 7: 2, 8: 8, 50: 50} {
		if got := seen(at(now)); !got.Equal(at(want)) {
			t.Errorf("at %d, changes were seen up to %s, want %d", now, got, want)
		}
	}
	if got := s.Longest(events); got != 6*time.Second {
		t.Errorf("the longest delay is %s", got)
	}
}
