package books

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Names of books of an earlier version: the UIDs of budgets.
const (
	oldA = "aaaaaaaa-0000-4000-8000-000000000000"
	oldB = "bbbbbbbb-0000-4000-8000-000000000000"
	oldC = "cccccccc-0000-4000-8000-000000000000"
)

// old makes a book of an earlier version.
func old(t testing.TB, ns, name, joined string, moved bool, pods ...string) {
	t.Helper()
	book := ledger.Book{Name: name}
	for _, pod := range pods {
		book, _ = ledger.Take(book, entry(pod))
	}
	v := &version{meta: metav1.ObjectMeta{Namespace: ns, Name: name}, book: book, joined: joined, moved: moved}
	env.Create(t, v.object())
}

func oldObject(t testing.TB, ns, name string) *limpetv1alpha1.DisruptionBook {
	t.Helper()
	var o limpetv1alpha1.DisruptionBook
	env.Read(t, client.ObjectKey{Namespace: ns, Name: name}, &o)
	return &o
}

// An upgrade may find the books in any state: joined or not, and in the middle of a join or a fold.
func TestNoEntryOfAnEarlierVersionIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		make func(ns string)
		want []string
	}{
		"a book for each budget": {func(ns string) {
			old(t, ns, oldA, "", false, "a")
			old(t, ns, oldB, "", false, "b")
		}, []string{"a", "b"}},
		"books that were joined": {func(ns string) {
			old(t, ns, oldA, "", false, "a", "b", "c")
			old(t, ns, oldB, oldA, true)
			old(t, ns, oldC, oldB, true)
		}, []string{"a", "b", "c"}},
		"a join that has begun": {func(ns string) {
			old(t, ns, oldA, "", false, "a")
			old(t, ns, oldB, oldA, false, "b")
		}, []string{"a", "b"}},
		"a join that is not closed": {func(ns string) {
			old(t, ns, oldA, "", false, "a", "b")
			old(t, ns, oldB, oldA, false, "b")
		}, []string{"a", "b"}},
		"a fold that has begun": {func(ns string) {
			old(t, ns, oldA, nameOfBudgets, false, "a")
		}, []string{"a"}},
		"a fold that is not closed": {func(ns string) {
			old(t, ns, nameOfBudgets, "", false, "a")
			old(t, ns, oldA, nameOfBudgets, false, "a")
		}, []string{"a"}},
		"a pointer of a user": {func(ns string) {
			old(t, ns, oldA, oldC, true, "a")
			old(t, ns, oldB, "x", true, "b")
		}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			c.make(ns)
			b := replica(t)
			var saw []string
			mustDecide(t, b, ns, func(book ledger.Book) (ledger.Book, bool) {
				saw = pods(book)
				return book, false
			})
			if diff := cmp.Diff(c.want, saw); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			books, err := b.oldBooks(t.Context(), ns)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range books {
				if o := oldObject(t, ns, v.meta.Name); !v.folded() || o.Joined != nameOfBudgets || !o.Moved || len(o.Entries) > 0 {
					t.Errorf("the old book is %+v", o)
				}
			}
		})
	}
}

// What the status of a budget shows, who waits, and which pods a replica must know, is kept, too.
func TestAFoldKeepsTheHistory(t *testing.T) {
	ns, now := env.Namespace(t), time.Now()
	book := ledger.Book{Name: oldA, Seen: "17"}
	book, _ = ledger.Ask(book, ledger.Waiting{UID: "1", Pod: "web-1", By: "drainer", Since: now, Last: now})
	book, _ = ledger.Note(book, ledger.Decision{Time: now, Pod: "web-1", Budgets: []string{"web"}})
	expired := entry("expired")
	expired.Since, expired.Expires = now.Add(-time.Hour), now.Add(-time.Hour)
	book, _ = ledger.Take(book, expired)
	env.Create(t, (&version{meta: metav1.ObjectMeta{Namespace: ns, Name: oldA}, book: book}).object())
	got := mustDecide(t, replica(t), ns, take("a"))
	if !slices.Equal(waiting(got), []string{"web-1"}) || len(got.Decisions) != 1 || got.Seen != "17" || !slices.Equal(pods(got), []string{"a"}) {
		t.Errorf("the book is %+v", got)
	}
}

// oldReplica decides as the earlier version does: with the book of one budget, or the one that it leads to.
// A book that gives its entries away is taken over by that one first, and closed.
func oldReplica(ctx context.Context, c client.Client, ns, name string, allows func(ledger.Book) bool, pod string) (bool, error) {
	for ctx.Err() == nil {
		root, err := readOld(ctx, c, ns, name)
		if err != nil {
			return false, err
		}
		frozen := root
		for root.joined != "" {
			frozen = root
			if root, err = readOld(ctx, c, ns, root.joined); err != nil {
				return false, err
			}
		}
		if frozen.joined != "" && !frozen.moved {
			root.book = ledger.Merge(root.book, frozen.book)
			if err = c.Update(ctx, root.object()); err == nil {
				err = c.Update(ctx, (&version{meta: frozen.meta, joined: frozen.joined, moved: true}).object())
			}
		} else {
			if !allows(root.book) {
				return false, nil
			}
			root.book, _ = ledger.Take(root.book, entry(pod))
			root.meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "policy.kruise.io/v1beta1", Kind: "PodUnavailableBudget", Name: "old", UID: types.UID(name)}}
			if err = c.Update(ctx, root.object()); err == nil {
				return true, nil
			}
		}
		if !cluster.Conflict(err) {
			return false, err
		}
	}
	return false, ctx.Err()
}

func readOld(ctx context.Context, c client.Client, ns, name string) (*version, error) {
	var o limpetv1alpha1.DisruptionBook
	err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &o)
	return read(&o), err
}

// During a rolling update replicas of both versions decide about the same budgets.
func TestReplicasOfTwoVersionsShareTheUnits(t *testing.T) {
	const limit, each = 9, 12
	ns := env.Namespace(t)
	old(t, ns, oldA, "", false, "before")
	c, b := replica(t), replica(t)
	allows := func(book ledger.Book) bool { return len(book.Entries) < limit }
	var wg sync.WaitGroup
	var mu sync.Mutex
	took := []string{"before"}
	note := func(pod string, allowed bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		if allowed && err == nil {
			took = append(took, pod)
		}
	}
	for i := range each {
		wg.Go(func() {
			pod := fmt.Sprint("old-", i)
			allowed, err := oldReplica(t.Context(), c.Live.(client.Client), ns, oldA, allows, pod)
			note(pod, allowed, err)
		})
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 3 * time.Millisecond)
			pod, allowed := fmt.Sprint("new-", i), false
			_, err := b.Decide(t.Context(), OfBudgets(ns), func(book ledger.Book) (ledger.Book, bool) {
				if allowed = allows(book); !allowed {
					return book, false
				}
				return ledger.Take(book, entry(pod))
			})
			note(pod, allowed, err)
		})
	}
	wg.Wait()
	slices.Sort(took)
	if diff := cmp.Diff(took, pods(live(t, OfBudgets(ns)))); diff != "" || len(took) != limit {
		t.Errorf("%d pods may go, %d units; entries (-allowed +got):\n%s", len(took), limit, diff)
	}
}

// Old books that are too much for one are refused, and taken over when there is room.
func TestOldBooksThatDoNotFitAreNotForgotten(t *testing.T) {
	ns := env.Namespace(t)
	for n, name := range []string{oldA, oldB} {
		var pods []string
		for i := range ledger.MostEntries - 1 {
			pods = append(pods, fmt.Sprint("pod-", n, "-", i))
		}
		old(t, ns, name, "", false, pods...)
	}
	o := replica(t).Options
	o.Clock = clocktesting.NewFakePassiveClock(time.Now()) // on a busy machine entries of 40 s would lapse meanwhile
	b := New(o)
	if _, err := b.Decide(t.Context(), OfBudgets(ns), take("x")); !errors.Is(err, ErrFull) {
		t.Fatalf("error %v, want that the book is full", err)
	}
	if _, err := b.Change(t.Context(), OfBudgets(ns), func(book ledger.Book) (ledger.Book, bool) {
		if len(book.Entries) != ledger.MostEntries-1 {
			t.Errorf("%d entries, want those of one book", len(book.Entries))
		}
		book.Entries = nil // as the leader does when the pods are gone
		return book, true
	}); err != nil {
		t.Fatal(err)
	}
	if got := mustDecide(t, b, ns, take("x")); len(got.Entries) != ledger.MostEntries {
		t.Errorf("%d entries, want those of the other book, and the new one", len(got.Entries))
	}
}

func TestPointersAreDeletedWhenNoReplicaFollowsThem(t *testing.T) {
	ns, clock := env.Namespace(t), clocktesting.NewFakePassiveClock(time.Now())
	old(t, ns, oldA, "", false, "a")
	o := replica(t).Options
	o.Clock = clock
	b := New(o)
	count := func() int {
		var list limpetv1alpha1.DisruptionBookList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if err := b.Tidy(t.Context(), ns); err != nil || count() != 2 {
		t.Fatalf("%v, %d books, want the pointer and the other one", err, count())
	}
	clock.SetTime(clock.Now().Add(pointerAge))
	testenv.Eventually(t, func() error { // the cache shows the pointer
		if err := b.Tidy(t.Context(), ns); err != nil {
			return err
		}
		if n := count(); n != 1 {
			return fmt.Errorf("%d books, want one", n)
		}
		return nil
	})
	if got := pods(live(t, OfBudgets(ns))); !slices.Equal(got, []string{"a"}) {
		t.Errorf("entries %v", got)
	}
}

// Replicas of the earlier version make budgets the owners of the book, which would go with the last of them.
func TestTidyTakesTheOwnersAway(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	mustDecide(t, b, ns, take("a"))
	o := object(t, ns)
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "policy.kruise.io/v1beta1", Kind: "PodUnavailableBudget", Name: "web", UID: oldA}}
	if err := env.Client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := b.Tidy(t.Context(), ns); err != nil {
			return err
		}
		if refs := object(t, ns).OwnerReferences; len(refs) > 0 {
			return fmt.Errorf("owners %v", refs)
		}
		return nil
	})
}
