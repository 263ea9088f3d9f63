package cluster_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/cluster"
)

func TestWriteIsUnseenWhileTheCacheIsOlder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cached, known string
		age           time.Duration
		want          bool
	}{
		"nothing was written yet":                  {"41", "", 0, false},
		"the write is not there yet":               {"41", "42", time.Second, true},
		"the write is there":                       {"42", "42", 0, false},
		"another client wrote after it":            {"43", "42", 0, false},
		"one digit more is no earlier":             {"100", "99", 0, false},
		"a version that cannot be compared is new": {"x", "42", 0, false},
		"an object that was restored from backup":  {"41", "42", time.Minute, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0)
			w := cluster.Write{Version: tc.known, At: now.Add(-tc.age)}
			if got := w.Unseen(tc.cached, now); (got > 0) != tc.want {
				t.Errorf("Unseen(%q) after %q = %s, want a wait: %t", tc.cached, tc.known, got, tc.want)
			}
		})
	}
}
