package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// The two books may hold different news of the same pods and requests.
func TestMergeOfBooksThatKnowTheSamePod(t *testing.T) {
	ask := func(b ledger.Book, uid string, since, last time.Duration) ledger.Book {
		b, _ = ledger.Ask(b, ledger.Waiting{UID: uid, Pod: "web-0", By: "u", Since: after(since), Last: after(last)})
		b, _ = ledger.Note(b, ledger.Decision{Time: after(last), Pod: uid})
		return b
	}
	askOther := func(b ledger.Book, since, last time.Duration) ledger.Book {
		b, _ = ledger.Ask(b, ledger.Waiting{UID: "other", Pod: "web-1", By: "u", Since: after(since), Last: after(last)})
		return b
	}
	a := ask(take(t, ledger.Book{Name: "a"}, entry("1", ledger.Changed, 5*time.Second)), "successor", 3*time.Second, 9*time.Second)
	b := ask(take(t, ledger.Book{Name: "b"}, entry("1", ledger.Gone, 2*time.Second)), "first", 1*time.Second, 7*time.Second)
	a, b = askOther(a, 4*time.Second, 6*time.Second), askOther(b, 3*time.Second, 8*time.Second)
	want := entry("1", ledger.Leaving, 2*time.Second)
	want.Expires = after(5*time.Second + ledger.Bound)
	for _, got := range []ledger.Book{ledger.Merge(a, b), ledger.Merge(b, a)} {
		if diff := cmp.Diff(map[string]ledger.Entry{"1": want}, got.Entries); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		waiting := []ledger.Waiting{
			{UID: "other", Pod: "web-1", By: "u", Since: after(3 * time.Second), Last: after(8 * time.Second)},
			{UID: "successor", Pod: "web-0", By: "u", Since: after(3 * time.Second), Last: after(9 * time.Second)},
		}
		slices.SortFunc(got.Waiting, func(a, b ledger.Waiting) int { return strings.Compare(a.UID, b.UID) })
		if diff := cmp.Diff(waiting, got.Waiting); diff != "" {
			t.Errorf("waiting (-want +got):\n%s", diff)
		}
		if got.Decisions[0].Pod != "successor" || got.Decisions[1].Pod != "first" {
			t.Errorf("decisions %v, want the newest first", got.Decisions)
		}
	}
}

// A replica that takes a book over may end in between, and another one begins again.
func TestASecondMergeChangesNothing(t *testing.T) {
	old := take(t, ledger.Book{Seen: "7"}, entry("1", ledger.Changed, 0), entry("2", ledger.Gone, 0))
	old, _ = ledger.Ask(old, ledger.Waiting{UID: "3", Pod: "web-0", By: "u", Since: start, Last: start})
	old, _ = ledger.Note(old, ledger.Decision{Time: start, Pod: "web-0", Budgets: []string{"web"}})
	once := ledger.Merge(take(t, ledger.Book{Name: "a", Seen: "6"}, entry("4", ledger.Gone, 0)), old)
	if diff := cmp.Diff(once, ledger.Merge(once, old)); diff != "" || len(once.Entries) != 3 || once.Seen != "7" {
		t.Errorf("%+v; a second merge (-once +twice):\n%s", once, diff)
	}
}

// A budget that is disrupted all the time does not take the others' history.
func TestEachBudgetKeepsItsLastDecisions(t *testing.T) {
	b, _ := ledger.Note(ledger.Book{}, ledger.Decision{Time: start, Pod: "quiet-0", Budgets: []string{"quiet"}})
	for i := range 500 {
		b, _ = ledger.Note(b, ledger.Decision{Time: after(time.Duration(i)), Pod: fmt.Sprint(i), Budgets: []string{"busy"}})
	}
	if len(b.Decisions) != ledger.MostDecisions+1 || b.Decisions[ledger.MostDecisions].Pod != "quiet-0" {
		t.Errorf("%d decisions, want the last ones of the busy budget, and that of the other", len(b.Decisions))
	}
}
