package disruption

import (
	"fmt"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// entered returns the book after a decision, and the decision: a full book refuses. changed
// reports whether the book must be written.
func entered(book ledger.Book, c inquiry, in budget.Input, d budget.Decision) (after ledger.Book, _ budget.Decision, changed bool) {
	if d.Take {
		if book, changed = ledger.Take(book, in.Entry()); !changed && d.Verdict == budget.Allowed {
			d = full(c, in, errFull)
		}
	}
	switch {
	case onlyNoted(d):
		return book, d, changed
	case d.Reason == budget.ReasonTaken && !changed:
		return book, d, false // another call for one request
	}
	book, noted := note(book, c, in, d)
	return book, d, changed || noted
}

// onlyNoted reports whether an answer need not wait until the book has it. A refusal gives no unit
// away. A request for a predecessor is one for the pod of that name from now on: the 404 is given
// once, and a drain that comes again means the pod that is there. So the book has it first.
func onlyNoted(d budget.Decision) bool {
	return d.Verdict == budget.Refused && d.Reason != budget.ReasonStale
}

// note puts a decision into the history of a book, and a refused request among those that wait.
func note(book ledger.Book, c inquiry, in budget.Input, d budget.Decision) (_ ledger.Book, changed bool) {
	if d.Verdict == budget.Refused {
		book, changed = ledger.Ask(book, in.Waiting())
	}
	book, noted := ledger.Note(book, ledger.Decision{
		Time: in.Now, Pod: in.Pod.Name, Vector: string(in.Vector), Verdict: string(d.Verdict), By: in.By, Reason: string(d.Reason), Budgets: c.names(),
	})
	return book, changed || noted
}

// errFull says why a full book refuses.
var errFull = fmt.Errorf("the book has no place for a further pod: %d pods that may go are not seen to be gone", ledger.MostEntries)

// full is the answer when the book cannot take the pod.
func full(c inquiry, in budget.Input, why error) budget.Decision {
	if unrefusable(in) {
		return budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}
	}
	return budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonFull, Message: why.Error(), Blocking: c.names()}
}
