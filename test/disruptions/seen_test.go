package disruptions_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"
)

// TestAWatchThatIsBehind checks a crash and, later, an eviction that the crash forbids. The eviction conforms only if
// the observer's own watch had not shown the crash either.
func TestAWatchThatIsBehind(t *testing.T) {
	l := newLog().unready("a")
	crash := l.now
	l.sleep(5 * time.Second).evict("b")
	for name, tc := range map[string]struct {
		seen func(time.Time) time.Time
		want int
	}{
		"no watch of the observer":           {nil, 1},
		"the watch had shown all":            {func(at time.Time) time.Time { return at }, 1},
		"the watch had shown the crash":      {func(time.Time) time.Time { return crash.Add(2 * time.Second) }, 1},
		"the watch had not shown the crash":  {func(time.Time) time.Time { return crash.Add(-time.Millisecond) }, 0},
		"the watch claims to be in advance":  {func(at time.Time) time.Time { return at.Add(time.Hour) }, 1},
		"the cache was a moment behind that": {func(time.Time) time.Time { return crash.Add(400 * time.Millisecond) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found := disruptions.Check(l.events, disruptions.Options{Lag: 500 * time.Millisecond, Replacement: time.Minute, Seen: tc.seen})
			if len(found.Violations) != tc.want {
				t.Errorf("%d violations, want %d: %v", len(found.Violations), tc.want, found.Violations)
			}
		})
	}
}
