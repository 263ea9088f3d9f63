package books

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// The book of a spread keeps the slots of pods that are being created, and has nothing to do
// with the books of budgets.
func TestTheBookOfASpreadIsItsOwn(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	disrupting, spread := budget("before"), budget("spread")
	spread.Spread = true
	mustDecide(t, b, ns, []Owner{disrupting}, take("web-1"))
	now := time.Now().UTC().Truncate(time.Microsecond)
	e := ledger.Entry{
		UID: "/web-2", Pod: "web-2", Use: ledger.Placed, Subset: "zone a", Owner: "1b8f0d7c-6f4c-4a52-9f43-4f64d5ba4a1e",
		Since: now, Expires: now.Add(ledger.Bound), Version: "123",
	}
	mustDecide(t, b, ns, []Owner{spread}, func(book ledger.Book) (ledger.Book, bool) { return ledger.Place(book, e, ""), true })
	if diff := cmp.Diff(map[string]ledger.Entry{"/web-2": e}, live(t, ns, spread).Entries); diff != "" {
		t.Errorf("entries of the spread (-want +got):\n%s", diff)
	}
	refs := object(t, ns, spread.UID).OwnerReferences
	if len(refs) != 1 || refs[0].Kind != "WorkloadSpread" || refs[0].APIVersion != "apps.kruise.io/v1beta1" {
		t.Errorf("owners %+v", refs)
	}
	later := budget("later") // gets the entries of the namespace's other budgets
	mustDecide(t, b, ns, []Owner{later}, take("web-3"))
	if diff := cmp.Diff([]string{"web-1", "web-3"}, pods(live(t, ns, later))); diff != "" {
		t.Errorf("pods of the later budget (-want +got):\n%s", diff)
	}
}
