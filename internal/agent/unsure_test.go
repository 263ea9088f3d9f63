package agent_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAClockThatIsNotSynchronizedIsTold has a node whose wall clock nothing has set since the boot.
func TestAClockThatIsNotSynchronizedIsTold(t *testing.T) {
	n := newNode(t, "unsure")
	var unsure atomic.Bool
	var lines atomic.Int32
	unsure.Store(true)
	clocks := n.Now
	n.Now = func() reservation.Moment {
		now := clocks()
		now.Unsure = unsure.Load()
		return now
	}
	n.Log = funcr.New(func(_, line string) {
		if t.Log(line); strings.Contains(line, "not synchronized") {
			lines.Add(1)
		}
	}, funcr.Options{})
	n.start(t)
	n.metricIs(t, "limpet_agent_clock_unsynchronized", 1)
	n.reserve(t, "shop", "db-0", 0, time.Hour) // the agent reads the state again
	n.metricIs(t, "limpet_pool_pods net reserved", 1)
	unsure.Store(false)
	n.metricIs(t, "limpet_agent_clock_unsynchronized", 0)
	if got := lines.Load(); got != 1 {
		t.Errorf("%d lines of the log tell that the clock is not synchronized, want 1", got)
	}
}
