package creation

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"
)

// The time of an answer counts from the arrival of the request: a request that waited for its turn
// has less of it, and a quarter is left for the way of the answer.
func TestARequestThatWaitedIsAnsweredInTime(t *testing.T) {
	ctx := withTimeout(t.Context(), httptest.NewRequest("POST", SpreadPath+"?timeout=2s", nil))
	now := time.Now()
	for name, tc := range map[string]struct{ waited, want time.Duration }{
		"at once":          {0, 1500 * time.Millisecond},
		"after a second":   {time.Second, 500 * time.Millisecond},
		"after nearly two": {1900 * time.Millisecond, -400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bounded, cancel := context.WithDeadline(ctx, now.Add(2*time.Second-tc.waited))
			defer cancel()
			if got := AnswerWithin(bounded, now); got != tc.want {
				t.Errorf("%v are left, want %v", got, tc.want)
			}
		})
	}
	if got := AnswerWithin(ctx, now); got != 1500*time.Millisecond {
		t.Errorf("%v are left without a deadline", got)
	}
}
