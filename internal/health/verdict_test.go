package health_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/health"
)

func TestVerdict(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	part := func(name string, age time.Duration, err error) health.Part {
		return health.Part{Name: name, Progress: now.Add(-age), Limit: time.Minute, Err: err}
	}
	failure := errors.New("no answer")
	cases := map[string]struct {
		parts   []health.Part
		want    []string // in the error; empty for none
		without string
	}{
		"a program without parts is healthy": {},
		"a part that makes progress":         {parts: []health.Part{part("rounds", time.Second, nil)}},
		"a part at its limit":                {parts: []health.Part{part("rounds", time.Minute, nil)}},
		"a part beyond its limit":            {parts: []health.Part{part("rounds", 61*time.Second, nil)}, want: []string{"rounds: no progress for 1m1s"}},
		"a failure that is new":              {parts: []health.Part{part("cache", time.Second, failure)}},
		"a failure that lasts":               {parts: []health.Part{part("cache", 2*time.Minute, failure)}, want: []string{"cache", "no answer"}},
		"the clock was set back":             {parts: []health.Part{part("rounds", -time.Hour, nil)}},
		"one of two": {
			parts: []health.Part{part("cache", time.Hour, nil), part("rounds", time.Second, nil)}, want: []string{"cache"}, without: "rounds",
		},
		"both": {parts: []health.Part{part("cache", time.Hour, nil), part("rounds", time.Hour, nil)}, want: []string{"cache", "rounds"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := health.Verdict(now, tc.parts...)
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("verdict %v, want %q", err, tc.want)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("verdict %q lacks %q", err, w)
				}
			}
			if tc.without != "" && strings.Contains(err.Error(), tc.without) {
				t.Errorf("verdict %q names %q", err, tc.without)
			}
		})
	}
}
