package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

func refused(pod string, after time.Duration) ledger.Decision {
	return ledger.Decision{Time: noon.Add(after), Pod: pod, Vector: "evict", Verdict: "Refused", Budgets: []string{"web"}}
}

func TestARefusalIsToldOnceAMinute(t *testing.T) {
	told := controller.Since(noon)
	steps := []struct {
		at        time.Duration
		decisions []ledger.Decision // the newest first
		want      []string
	}{
		{2 * time.Second, []ledger.Decision{refused("b", time.Second), refused("a", -time.Second)}, []string{"b"}},
		{3 * time.Second, []ledger.Decision{refused("b", time.Second)}, nil},
		{9 * time.Second, []ledger.Decision{refused("b", 8*time.Second), refused("c", 7*time.Second)}, []string{"c"}},
		{10 * time.Second, []ledger.Decision{{Time: noon.Add(9 * time.Second), Pod: "d", Verdict: "Allowed"}}, nil},
		{70 * time.Second, []ledger.Decision{refused("b", 69*time.Second)}, []string{"b"}},
	}
	for i, s := range steps {
		if diff := cmp.Diff(s.want, told.Tell(s.decisions, noon.Add(s.at))); diff != "" {
			t.Errorf("step %d: pods (-want +got):\n%s", i, diff)
		}
	}
}

// A script that asks for each of a thousand pods makes a bounded number of events.
func TestRefusalsOfManyPodsAreBounded(t *testing.T) {
	told, events := controller.Since(noon), 0
	for second := range 60 {
		var decisions []ledger.Decision
		for i := range 64 {
			decisions = append(decisions, refused(fmt.Sprintf("web-%d", second*64+i), time.Duration(second)*time.Second+1))
		}
		events += len(told.Tell(decisions, noon.Add(time.Duration(second)*time.Second)))
	}
	if events != controller.MostEvents {
		t.Errorf("%d events in a minute, want %d", events, controller.MostEvents)
	}
}
