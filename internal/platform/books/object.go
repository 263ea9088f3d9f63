package books

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// version is a book as it is, was or will be in the API. It is not changed, because readers
// share it.
type version struct {
	meta metav1.ObjectMeta
	book ledger.Book

	noted bool // the book has notes that are not written
}

// read converts an object.
func read(o *limpetv1alpha1.DisruptionBook) *version {
	b := ledger.Book{
		Name: o.Name, Seen: o.Seen, Entries: make(map[string]ledger.Entry, len(o.Entries)),
	}
	for _, e := range o.Entries {
		entry := ledger.Entry{
			UID: string(e.UID), Pod: e.Pod, Use: ledger.Use(e.Use), Vector: e.Vector, By: e.By,
			Since: e.Since.Time, Expires: e.Expires.Time,
			Version: e.Version, Generation: e.Generation, Restarts: e.Restarts, Subset: e.Subset, Owner: string(e.Owner),
		}
		b.Entries[entry.UID] = entry
	}
	for _, w := range o.Waiting {
		b.Waiting = append(b.Waiting, ledger.Waiting{UID: string(w.UID), Pod: w.Pod, By: w.By, Since: w.Since.Time, Last: w.Last.Time, ByWorkload: w.ByWorkload, Blocked: w.Blocked})
	}
	for _, d := range o.Decisions {
		b.Decisions = append(b.Decisions, ledger.Decision{
			Time: d.Time.Time, Pod: d.Pod, Vector: d.Vector, Verdict: d.Verdict, By: d.By, Reason: d.Reason, Budgets: slices.Clone(d.Budgets),
		})
	}
	for _, s := range o.Shares {
		b.Shares = append(b.Shares, ShareOf(s))
	}
	return &version{meta: o.ObjectMeta, book: b}
}

// object converts a version. The order of the entries does not change between two writes.
func (v *version) object() *limpetv1alpha1.DisruptionBook {
	b := v.book
	o := &limpetv1alpha1.DisruptionBook{ObjectMeta: *v.meta.DeepCopy(), Seen: b.Seen}
	for _, e := range b.Entries {
		o.Entries = append(o.Entries, limpetv1alpha1.DisruptionEntry{
			UID: types.UID(e.UID), Pod: e.Pod, Use: string(e.Use), Vector: e.Vector, By: e.By,
			Since: metav1.NewMicroTime(e.Since), Expires: metav1.NewMicroTime(e.Expires),
			Version: e.Version, Generation: e.Generation, Restarts: e.Restarts, Subset: e.Subset, Owner: types.UID(e.Owner),
		})
	}
	slices.SortFunc(o.Entries, func(a, b limpetv1alpha1.DisruptionEntry) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, w := range b.Waiting {
		o.Waiting = append(o.Waiting, limpetv1alpha1.WaitingRequest{
			UID: types.UID(w.UID), Pod: w.Pod, By: w.By, Since: metav1.NewMicroTime(w.Since), Last: metav1.NewMicroTime(w.Last), ByWorkload: w.ByWorkload, Blocked: w.Blocked,
		})
	}
	for _, d := range b.Decisions {
		o.Decisions = append(o.Decisions, limpetv1alpha1.BookedDecision{
			Time: metav1.NewMicroTime(d.Time), Pod: d.Pod, Budgets: d.Budgets, Vector: d.Vector, Verdict: d.Verdict, Reason: d.Reason, By: d.By,
		})
	}
	for _, s := range b.Shares {
		o.Shares = append(o.Shares, ShownShare(s))
	}
	return o
}

// key is the name of the object of a book.
func (v *version) key() client.ObjectKey {
	return client.ObjectKey{Namespace: v.meta.Namespace, Name: v.meta.Name}
}
