package reconcile

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// TestAnOfferLastsUntilAWorkloadIsWoken has a unit for a request that was refused. A workload is woken after ten seconds.
func TestAnOfferLastsUntilAWorkloadIsWoken(t *testing.T) {
	spec := sites.Spec{MaxUnavailable: new(intstr.FromInt32(1)), Members: []sites.Site{"/a/db", "/b/db"}}
	for byWorkload, want := range map[bool]time.Duration{false: 10 * time.Second, true: 20 * time.Second} {
		now := time.Unix(10_000, 0)
		s := situation{now: now, pub: &policyv1beta1.PodUnavailableBudget{}}
		s.covered.Budget = budget.Budget{
			Expected: 1, MaxUnavailable: spec.MaxUnavailable, Pods: []budget.Pod{{UID: "u", Name: "db-0", Serving: true, Available: true}},
			Sites: &budget.Sites{Self: "/a/db", Spec: spec, Peers: map[sites.Site]sites.Heard{}},
		}
		s.groups = []budget.Budget{s.covered.Budget}
		s.book = ledger.Book{
			Shares:  []ledger.Share{{Spec: spec.Hash(), Group: "g", Agreement: "x", Open: true, Base: 1}},
			Waiting: []ledger.Waiting{{UID: "u", Pod: "db-0", Since: now, Last: now, ByWorkload: byWorkload}},
		}
		if got := s.offered(offer{}); got.until.Sub(now) != want {
			t.Errorf("by a workload: %t: the offer ends after %s, want %s", byWorkload, got.until.Sub(now), want)
		}
	}
}

// TestLimitsOfAChild has shares, and what a child of them says.
func TestLimitsOfAChild(t *testing.T) {
	share := func(open, least bool, number int32) ledger.Share {
		return ledger.Share{Open: open, Least: least, Base: number}
	}
	for name, tc := range map[string]struct {
		shares []ledger.Share
		want   limit
	}{
		"none":              {want: limit{}},
		"closed":            {shares: []ledger.Share{share(false, false, 2)}, want: limit{}},
		"may be away":       {shares: []ledger.Share{share(true, false, 2)}, want: limit{false, 2}},
		"must be available": {shares: []ledger.Share{share(true, true, 2)}, want: limit{true, 2}},
		"beyond the share":  {shares: []ledger.Share{share(true, false, -1)}, want: limit{}},
		"a ring":            {shares: []ledger.Share{share(true, false, 1), share(true, false, 0)}, want: limit{}},
	} {
		if got := limitOf(tc.shares); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	if a, b := (limit{true, 2}).and(limit{true, 3}), (limit{false, 2}).and(limit{false, 1}); a != (limit{true, 3}) || b != (limit{false, 1}) {
		t.Errorf("together %+v and %+v", a, b)
	}
	if c := (limit{true, 2}).and(limit{}); c != (limit{}) {
		t.Errorf("beside a closed one %+v", c)
	}
}

// TestAChildThatMayHaveLetPodsGo has a child of generation 2, and what Kubernetes says of it.
func TestAChildThatMayHaveLetPodsGo(t *testing.T) {
	for name, tc := range map[string]struct {
		status policyv1.PodDisruptionBudgetStatus
		want   bool
	}{
		"its former limit holds":    {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1}, true},
		"a pod that it let go runs": {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DisruptedPods: map[string]metav1.Time{"db-0": {}}}, true},
		"all that went are counted": {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2}, false},
	} {
		child := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: tc.status}
		if got := evicts(child); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestABudgetIsIdle ten minutes after its last request.
func TestABudgetIsIdle(t *testing.T) {
	now := time.Unix(10_000, 0)
	for name, tc := range map[string]struct {
		last time.Duration // before now; 0 for never
		book ledger.Book
		idle bool
	}{
		"a leader begins":        {},
		"long ago":               {last: idleAfter, idle: true},
		"not long ago":           {last: idleAfter - 1},
		"a request waits":        {last: idleAfter, book: ledger.Book{Waiting: []ledger.Waiting{{UID: "u", Since: now, Last: now}}}},
		"a request is blocked":   {last: idleAfter, book: ledger.Book{Waiting: []ledger.Waiting{{UID: "u", Since: now, Last: now, Blocked: true}}}, idle: true},
		"a pod goes":             {last: idleAfter, book: ledger.Book{Entries: map[string]ledger.Entry{"u": {}}}},
		"a pod of another goes":  {last: idleAfter, book: ledger.Book{Entries: map[string]ledger.Entry{"v": {}}}, idle: true},
		"a request waits beside": {last: idleAfter, book: ledger.Book{Waiting: []ledger.Waiting{{UID: "v", Since: now, Last: now}}}, idle: true},
	} {
		s := situation{now: now, book: tc.book}
		s.covered.Budget.Pods = []budget.Pod{{UID: "u"}}
		var last time.Time
		if tc.last > 0 {
			last = now.Add(-tc.last)
		}
		if busy := s.lastBusy(last); s.idle != tc.idle || !s.idle && tc.last != idleAfter-1 && !busy.Equal(now) {
			t.Errorf("%s: idle %t, last busy %s", name, s.idle, busy)
		}
	}
}
