package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

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
