package books

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// The book of a spread keeps the slots of pods that are being created, and has nothing to do
// with the book of the budgets.
func TestTheBookOfASpreadIsItsOwn(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	spread := OfSpread(&metav1.ObjectMeta{Namespace: ns, Name: "spread", UID: uuid.NewUUID()})
	mustDecide(t, b, ns, take("web-1"))
	now := time.Now().UTC().Truncate(time.Microsecond)
	e := ledger.Entry{
		UID: "/web-2", Pod: "web-2", Use: ledger.Placed, Subset: "zone a", Owner: "1b8f0d7c-6f4c-4a52-9f43-4f64d5ba4a1e",
		Since: now, Expires: now.Add(ledger.Bound), Version: "123",
	}
	if _, err := b.Decide(t.Context(), spread, func(book ledger.Book) (ledger.Book, bool) { return ledger.Place(book, e, ""), true }); err != nil {
		t.Fatal(err)
	}
	mustDecide(t, b, ns, take("web-3"))
	if diff := cmp.Diff(map[string]ledger.Entry{"/web-2": e}, live(t, spread).Entries); diff != "" {
		t.Errorf("entries of the spread (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web-1", "web-3"}, pods(live(t, OfBudgets(ns)))); diff != "" {
		t.Errorf("entries of the budgets (-want +got):\n%s", diff)
	}
	var o limpetv1alpha1.DisruptionBook
	env.Read(t, spread.object, &o)
	if refs := o.OwnerReferences; len(refs) != 1 || refs[0].Kind != "WorkloadSpread" || refs[0].APIVersion != "apps.kruise.io/v1beta1" {
		t.Errorf("owners %+v", refs)
	}
}
