package admit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/spread/admit"
)

// A namespace is told again after ten seconds. The memory has a bound, and many namespaces take each
// other no event for longer than that.
func TestANamespaceIsToldAgainAfterAWhile(t *testing.T) {
	var told admit.Told
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		namespace string
		after     time.Duration
		want      bool
	}{
		{"a", 0, true}, {"a", 9 * time.Second, false}, {"b", 9 * time.Second, true}, {"a", 10 * time.Second, true}, {"a", 11 * time.Second, false},
	} {
		if got := told.May(step.namespace, start.Add(step.after)); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	full := start.Add(time.Minute)
	given := 0
	for i := range 5000 {
		if told.May(fmt.Sprint("ns-", i), full) {
			given++
		}
	}
	if given != 1024 {
		t.Errorf("%d namespaces were told at a time", given)
	}
	if !told.May("ns-4999", full.Add(10*time.Second)) {
		t.Error("a full memory tells no namespace any more")
	}
}
