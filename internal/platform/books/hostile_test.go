package books

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// A tenant may create any number of budgets that select one pod. No book is made then.
func TestTooManyBudgetsOfAPodAreRefused(t *testing.T) {
	ns, many, b := env.Namespace(t), sorted(10_000), replica(t)
	_, err := b.Decide(t.Context(), ns, many, take("a"))
	if !errors.Is(err, ErrManyBudgets) || !strings.Contains(err.Error(), "10000 budgets cover one pod, at most 32 may") {
		t.Errorf("decide: %v", err)
	}
	if _, err := b.Look(t.Context(), ns, many); !errors.Is(err, ErrManyBudgets) {
		t.Errorf("look: %v", err)
	}
	var list limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o.Namespace == ns {
			t.Fatalf("book %s was made", o.Name)
		}
	}
}

// Pods that are covered by two budgets each can chain any number of budgets. The chain ends, and
// those outside of it decide alone.
func TestChainOfBudgetsEnds(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	chain := sorted(MostOwners + 2)
	for i := 0; i+MostBudgets <= MostOwners; i += MostBudgets - 1 {
		mustDecide(t, b, ns, chain[i:i+MostBudgets], take(fmt.Sprint(i)))
	}
	last := len(object(t, ns, chain[0].UID).OwnerReferences)
	for i := last; i < MostOwners; i++ {
		mustDecide(t, b, ns, chain[i-1:i+1], take(fmt.Sprint(i)))
	}
	outside := chain[MostOwners:]
	mustDecide(t, b, ns, outside[:1], take("old")) // one that has a book, and one that has none
	for _, one := range outside {
		if _, err := b.Decide(t.Context(), ns, []Owner{chain[0], one}, take("x")); !errors.Is(err, ErrManyBudgets) {
			t.Errorf("join of budget %d: %v", MostOwners+1, err)
		}
		if got := mustDecide(t, b, ns, []Owner{one}, take("alone")); got.Name != string(one.UID) {
			t.Errorf("the budget outside decides with %s", got.Name)
		}
	}
	if got := mustDecide(t, b, ns, chain[MostOwners-1:MostOwners], take("inside")); got.Name != string(chain[0].UID) {
		t.Errorf("the last budget of the chain decides with %s", got.Name)
	}
}

// No role of Limpet permits users to write books. What they wrote with other rights must not
// stop decisions.
func TestBooksOfOthers(t *testing.T) {
	pointer := func(ns string, from Owner, to string) *limpetv1alpha1.DisruptionBook {
		return &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: string(from.UID)}, Joined: to, Moved: true}
	}
	two := sorted(2)
	for name, objects := range map[string]func(ns string) []*limpetv1alpha1.DisruptionBook{
		"a cycle": func(ns string) []*limpetv1alpha1.DisruptionBook {
			return []*limpetv1alpha1.DisruptionBook{pointer(ns, two[0], string(two[1].UID)), pointer(ns, two[1], string(two[0].UID))}
		},
		"a book that points to itself": func(ns string) []*limpetv1alpha1.DisruptionBook {
			return []*limpetv1alpha1.DisruptionBook{pointer(ns, two[0], string(two[0].UID))}
		},
		"a pointer to a name that is no UID": func(ns string) []*limpetv1alpha1.DisruptionBook {
			return []*limpetv1alpha1.DisruptionBook{pointer(ns, two[1], "0")}
		},
		"a pointer to a book that is missing": func(ns string) []*limpetv1alpha1.DisruptionBook {
			return []*limpetv1alpha1.DisruptionBook{pointer(ns, two[1], "00000000-0000-0000-0000-000000000000")}
		},
		"another owner": func(ns string) []*limpetv1alpha1.DisruptionBook {
			o := &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: string(two[0].UID)}}
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other", Controller: new(true)}}
			return []*limpetv1alpha1.DisruptionBook{o}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns, b := env.Namespace(t), replica(t)
			for _, o := range objects(ns) {
				env.Create(t, o)
			}
			mustDecide(t, b, ns, two[1:], take("b"))
			got := mustDecide(t, b, ns, two, take("ab"))
			if diff := cmp.Diff([]string{"ab", "b"}, pods(got)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"ab", "b"}, pods(live(t, ns, two[0]))); diff != "" {
				t.Errorf("entries of the other budget (-want +got):\n%s", diff)
			}
			var odd limpetv1alpha1.DisruptionBook
			if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "0"}, &odd); !apierrors.IsNotFound(err) {
				t.Errorf("a book of that name: %v, want none", err)
			}
			refs := object(t, ns, two[0].UID).OwnerReferences
			if name == "another owner" && (len(refs) != 3 || refs[0].Kind != "ConfigMap") {
				t.Errorf("owners %v, want that of the user, and ours", refs)
			}
		})
	}
}

func TestBudgetWithoutAUIDIsAnError(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	for _, uid := range []string{"", "x", "../pods", strings.Repeat("-", 36), strings.ToUpper(string(budget("").UID))} {
		if _, err := b.Decide(t.Context(), ns, []Owner{{Name: "web", UID: "x"}}, take("a")); err == nil || !strings.Contains(err.Error(), "web") {
			t.Errorf("UID %q: %v", uid, err)
		}
	}
}

// A book must never be refused by the API server for its size. A tenant chooses the names of
// pods and budgets; names of users may have characters that JSON writes as six.
func TestGreatestBookCanBeWritten(t *testing.T) {
	ns, web, b := env.Namespace(t), budget(strings.Repeat("w", 253)), replica(t)
	full := mustDecide(t, b, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
		now := time.Now()
		for i := range ledger.MostWaiting {
			book, _ = ledger.Ask(book, ledger.Waiting{UID: string(web.UID), Pod: strings.Repeat("p", 249) + fmt.Sprintf("%04d", i), By: strings.Repeat("<", 999), Since: now, Last: now})
		}
		for i := range ledger.MostDecisions {
			book, _ = ledger.Note(book, ledger.Decision{Time: now, Pod: fmt.Sprint(i), By: strings.Repeat("<", 999), Budgets: []string{web.Name}})
		}
		for i, ok := 0, true; ok; i++ {
			e := entry(fmt.Sprintf("%036d", i))
			e.Pod, e.By, e.Version, e.Generation, e.Restarts = strings.Repeat("p", 253), strings.Repeat("<", 999), strings.Repeat("9", 19), 1<<40, 1<<40
			book, ok = ledger.Take(book, e)
		}
		return book, true
	})
	if !ledger.Full(full) {
		t.Error("the book is not full")
	}
	size := sizeOf(t, ns, web)
	t.Logf("a book with the greatest names is full with %d entries and %d bytes", len(full.Entries), size)
	if size > 1<<20+1<<18 { // etcd takes 1.5 MiB; a join and further owners need some of them
		t.Errorf("%d bytes", size)
	}
	usual := budget("usual")
	ns = env.Namespace(t)
	full = mustDecide(t, b, ns, []Owner{usual}, func(book ledger.Book) (ledger.Book, bool) {
		for i, ok := 0, true; ok; i++ {
			e := entry(fmt.Sprintf("%036d", i))
			e.Pod, e.By, e.Version, e.Generation, e.Restarts = fmt.Sprint("web-5d4f8c7b6-", i), "system:serviceaccount:kube-system:drainer", "123456789", 1, 7
			book, ok = ledger.Take(book, e)
		}
		return book, true
	})
	size = sizeOf(t, ns, usual)
	t.Logf("a book with usual names is full with %d entries and %d bytes", len(full.Entries), size)
	if len(full.Entries) != ledger.MostEntries || size > 1<<20 {
		t.Errorf("%d entries and %d bytes, want %d entries in less than 1 MiB", len(full.Entries), size, ledger.MostEntries)
	}
}

func sizeOf(t *testing.T, ns string, of Owner) int {
	t.Helper()
	data, err := json.Marshal(object(t, ns, of.UID))
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}
