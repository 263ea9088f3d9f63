package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// A message that differs by an age alone changes no status.
func TestAnAgeAloneIsNotWritten(t *testing.T) {
	pub := aBudget("shop", "web", intstr.FromInt32(1))
	first := controller.Shown(pub, ledger.Book{}, nil, "Not available: web-0 (evict by a, 3 s ago).")
	pub.Status = first
	again := controller.Shown(pub, ledger.Book{}, nil, "Not available: web-0 (evict by a, 2 min ago).")
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("an older entry (-first +again):\n%s", diff)
	}
	if other := controller.Shown(pub, ledger.Book{}, nil, "Not available: web-1 (evict by a, 3 s ago)."); cmp.Equal(first, other) {
		t.Error("another pod changes nothing")
	}
}

// The status names the pods of the budget that have an entry, and decisions about the budget.
func TestTheStatusShowsThePartsOfTheBookThatAreAboutTheBudget(t *testing.T) {
	pub := aBudget("shop", "web", intstr.FromInt32(1))
	pub.CreationTimestamp = metav1.NewTime(noon)
	at := noon.Add(90*time.Second + 300*time.Millisecond)
	book := ledger.Book{
		Entries: map[string]ledger.Entry{
			"a": {UID: "a", Pod: "web-0", Use: ledger.Gone, Since: at},
			"b": {UID: "b", Pod: "web-1", Use: ledger.Changed, Since: at},
			"x": {UID: "x", Pod: "web-0", Use: ledger.Gone, Since: at}, // the predecessor of a
			"c": {UID: "c", Pod: "db-0", Use: ledger.Gone, Since: at},
		},
		Decisions: []ledger.Decision{
			{Time: at, Pod: "web-0", Vector: "evict", Verdict: "Allowed", By: strings.Repeat("é", 300), Budgets: []string{"db", "web"}},
			{Time: at, Pod: "db-0", Vector: "evict", Verdict: "Allowed", Budgets: []string{"db"}},
			{Time: noon.Add(-time.Hour), Pod: "web-9", Vector: "evict", Verdict: "Refused", Budgets: []string{"web"}}, // of a former budget
		},
	}
	for range 20 {
		book.Decisions = append(book.Decisions, book.Decisions[0])
	}
	got := controller.Shown(pub, book, map[types.UID]string{"a": "web-0", "b": "web-1", "d": "web-2"}, "")
	second := metav1.NewTime(noon.Add(90 * time.Second))
	if diff := cmp.Diff(map[string]metav1.Time{"web-0": second}, got.DisruptedPods); diff != "" {
		t.Errorf("disrupted pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]metav1.Time{"web-1": second}, got.UnavailablePods); diff != "" {
		t.Errorf("unavailable pods (-want +got):\n%s", diff)
	}
	want := policyv1beta1.Decision{Time: second, Pod: "web-0", Vector: "evict", Verdict: "Allowed", By: strings.Repeat("é", 253)}
	if len(got.Decisions) != 16 || got.Decisions[0] != want || got.Decisions[1] != want {
		t.Errorf("%d decisions: %+v, want 16 like %+v", len(got.Decisions), got.Decisions, want)
	}
}
