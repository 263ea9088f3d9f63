package books

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
)

// covers tells by a pod's name whether a budget covers the pod: 02-x is covered by 0 and 2.
func covers(budget int, pod string) bool {
	digits, _, _ := strings.Cut(pod, "-")
	return strings.Contains(digits, fmt.Sprint(budget))
}

func inUse(b ledger.Book, budget int) (n int) {
	for pod := range b.Entries {
		if covers(budget, pod) {
			n++
		}
	}
	return n
}

func TestAnotherReplicaCompletesAJoin(t *testing.T) {
	for done := range 4 {
		t.Run(fmt.Sprintf("after %d steps", done), func(t *testing.T) {
			ns, two := env.Namespace(t), sorted(2)
			dying, other := replica(t), replica(t)
			mustDecide(t, dying, ns, two[:1], take("a"))
			knowsBooks(t, dying, ns, two[:1]) // a new book has the entries of those that the cache shows
			mustDecide(t, dying, ns, two[1:], take("b"))
			stepsOf(t, dying, ns, two, done)
			knowsBooks(t, other, ns, two)
			for _, budgets := range [][]Owner{two[1:], two, two[:1]} {
				got, err := other.Look(t.Context(), ns, budgets)
				if err != nil || !slices.Contains(pods(got), "b") && budgets[0] != two[0] {
					t.Errorf("before the join is completed: entries %v, %v", pods(got), err)
				}
			}
			got := mustDecide(t, other, ns, two[1:], take("c"))
			if diff := cmp.Diff([]string{"a", "b", "c"}, pods(got)); diff != "" { // without a join, a copy of a
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			got = mustDecide(t, dying, ns, two, take("d")) // as if it had never died
			if diff := cmp.Diff([]string{"a", "b", "c", "d"}, pods(got)); diff != "" || got.Name != string(two[0].UID) {
				t.Errorf("book %s, entries (-want +got):\n%s", got.Name, diff)
			}
			if refs := object(t, ns, two[0].UID).OwnerReferences; len(refs) != 2 {
				t.Errorf("owners %v, want both budgets", refs)
			}
			closed := object(t, ns, two[1].UID)
			if !closed.Moved || closed.Joined != string(two[0].UID) || len(closed.Entries) != 0 {
				t.Errorf("the joined book is %+v", closed)
			}
		})
	}
}

// knowsBooks waits until the cache of a replica shows the books of budgets as they are now.
func knowsBooks(t *testing.T, b *Books, ns string, of []Owner) {
	t.Helper()
	for _, budget := range of {
		want := object(t, ns, budget.UID)
		testenv.Eventually(t, func() error {
			v, err := b.read(t.Context(), client.ObjectKeyFromObject(want))
			if err == nil && (v == nil || v.meta.ResourceVersion != want.ResourceVersion) {
				err = fmt.Errorf("the cache shows %+v of book %s, want version %s", v, want.Name, want.ResourceVersion)
			}
			return err
		})
	}
}

// stepsOf does some steps of a join, as a replica that ends after them.
func stepsOf(t *testing.T, b *Books, ns string, budgets []Owner, most int) {
	t.Helper()
	names, err := namesOf(budgets)
	if err != nil {
		t.Fatal(err)
	}
	j := &joining{ns, budgets, names, ledger.Books{}, map[string]*version{}}
	for most > 0 {
		step := ledger.Next(j.known, names)
		if step.Do != ledger.DoRead {
			most--
		}
		if err := b.advance(t.Context(), j, step); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJoinsDuringDecisions decides about pods of one and of two budgets, in two replicas and
// all at once. Some requests end early, as those of a replica that is killed.
func TestJoinsDuringDecisions(t *testing.T) {
	const limit, each = 5, 40
	ns, three := env.Namespace(t), sorted(3)
	kinds := []string{"0", "1", "2", "01", "12"}
	random := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []string
	for r, b := range []*Books{replica(t), replica(t)} {
		for i := range each {
			kind, killed := kinds[random.IntN(len(kinds))], i%3 == 0
			early := time.Duration(random.IntN(30)) * time.Millisecond
			wg.Go(func() {
				ctx := t.Context()
				if killed {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, early)
					defer cancel()
				}
				pod, allowed := fmt.Sprintf("%s-%d-%d", kind, r, i), false
				var of []Owner
				for n, budget := range three {
					if covers(n, pod) {
						of = append(of, budget)
					}
				}
				_, err := b.Decide(ctx, ns, of, func(book ledger.Book) (ledger.Book, bool) {
					allowed = true
					for n := range three {
						allowed = allowed && (!covers(n, pod) || inUse(book, n) < limit)
					}
					if !allowed {
						return book, false
					}
					return ledger.Take(book, entry(pod))
				})
				if err != nil && !killed {
					t.Error(err)
				}
				if err == nil && allowed {
					mu.Lock()
					took = append(took, pod)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	got := mustDecide(t, replica(t), ns, three, func(b ledger.Book) (ledger.Book, bool) { return b, false })
	for n := range three {
		if used := inUse(got, n); used > limit || used == 0 {
			t.Errorf("budget %d has %d units in use, at most %d: %v", n, used, limit, pods(got))
		}
	}
	for _, pod := range took {
		if _, ok := got.Entries[pod]; !ok {
			t.Errorf("the entry of %s is lost", pod)
		}
	}
	if got.Name != string(three[0].UID) {
		t.Errorf("the book is %s, want the smallest name", got.Name)
	}
}

// A replica may not know yet that a book was joined to another one.
func TestReplicaThatDoesNotKnowOfAJoinFollowsIt(t *testing.T) {
	for done := 1; done < 4; done++ {
		t.Run(fmt.Sprintf("after %d steps", done), func(t *testing.T) {
			ns, two, joins := env.Namespace(t), sorted(2), replica(t)
			mustDecide(t, joins, ns, two[:1], take("a"))
			mustDecide(t, joins, ns, two[1:], take("b"))
			old := &oldCache{Reader: env.Client, book: *object(t, ns, two[1].UID)}
			stepsOf(t, joins, ns, two, done)
			b := New(Options{Client: env.Client, Live: env.Client, Cached: old, Clock: clock.RealClock{}})
			got := mustDecide(t, b, ns, two[1:], take("c"))
			if diff := cmp.Diff([]string{"a", "b", "c"}, pods(got)); diff != "" || got.Name != string(two[0].UID) {
				t.Errorf("book %s, entries (-want +got):\n%s", got.Name, diff)
			}
			if entries := object(t, ns, two[1].UID).Entries; len(entries) != 0 {
				t.Errorf("the joined book has the entries %v", entries)
			}
		})
	}
}

// A frozen book may be joined by a replica that decides for its own budget alone, so that the
// other budgets of the frozen book become owners by the join.
func TestJoinKeepsTheOwners(t *testing.T) {
	ns, three, b := env.Namespace(t), sorted(3), replica(t)
	mustDecide(t, b, ns, three[:1], take("a"))
	mustDecide(t, b, ns, three[1:], take("bc"))
	mustDecide(t, b, ns, three[:2], take("ab"))
	if refs := object(t, ns, three[0].UID).OwnerReferences; len(refs) != 3 {
		t.Errorf("owners %v, want all three budgets", refs)
	}
}

// New budgets that share a pod need no join.
func TestFirstDecisionForManyBudgetsIsOneWriteEach(t *testing.T) {
	ns, many := env.Namespace(t), sorted(MostBudgets)
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, many, take("a"))
	if n := traffic.Count("disruptionbooks"); n != MostBudgets+1 {
		t.Errorf("%d writes for %d budgets", n, MostBudgets)
	}
	if n := len(object(t, ns, many[0].UID).OwnerReferences); n != MostBudgets {
		t.Errorf("%d owners, want all budgets", n)
	}
}

// A budget may be made while pods go, by the books of budgets that cover them, too. It must count
// them.
func TestNewBudgetCountsPodsThatAlreadyGo(t *testing.T) {
	ns, three := env.Namespace(t), sorted(3)
	old, fresh := replica(t), replica(t)
	mustDecide(t, old, ns, three[1:2], func(book ledger.Book) (ledger.Book, bool) {
		book.Seen = "17"
		return ledger.Take(book, entry("b"))
	})
	testenv.Eventually(t, func() error {
		if _, err := fresh.entriesIn(t.Context(), ns); err != nil {
			return err
		}
		if got, err := fresh.Look(t.Context(), ns, three[1:2]); err != nil || len(got.Entries) == 0 {
			return fmt.Errorf("entries %v, %w", pods(got), err)
		}
		return nil
	})
	for i, budgets := range [][]Owner{three[:1], three[1:]} { // a book of its own, and one that is joined
		var saw ledger.Book
		mustDecide(t, fresh, ns, budgets, func(book ledger.Book) (ledger.Book, bool) {
			saw = book
			return book, false
		})
		if diff := cmp.Diff([]string{"b"}, pods(saw)); diff != "" || saw.Seen != "17" {
			t.Errorf("budgets %d: pods up to %s, entries (-want +got):\n%s", i, saw.Seen, diff)
		}
	}
}

// A book must live as long as the pointers to it are used. So a budget points to the book that
// has it as an owner, not to a book in between.
func TestBookPointsPastABookInBetween(t *testing.T) {
	ns, three, b := env.Namespace(t), sorted(3), replica(t)
	mustDecide(t, b, ns, three[2:], take("c"))
	mustDecide(t, b, ns, three[1:], take("b"))
	mustDecide(t, b, ns, three[:2], take("a"))
	if got := object(t, ns, three[2].UID).Joined; got != string(three[1].UID) {
		t.Fatalf("joined to %s, want the book in between", got)
	}
	mustDecide(t, b, ns, three[2:], take("d"))
	if got := object(t, ns, three[2].UID).Joined; got != string(three[0].UID) {
		t.Errorf("joined to %s, want the book with the entries", got)
	}
	if got := live(t, ns, three[2]); len(got.Entries) != 4 || len(object(t, ns, three[0].UID).OwnerReferences) != 3 {
		t.Errorf("entries %v", pods(got))
	}
}

func TestBookThatAUserDeletedIsMadeAgain(t *testing.T) {
	for gone := range 2 {
		t.Run([]string{"with the entries", "with the pointer"}[gone], func(t *testing.T) {
			ns, two, b := env.Namespace(t), sorted(2), replica(t)
			mustDecide(t, b, ns, two, take("a"))
			env.Remove(t, object(t, ns, two[gone].UID))
			for i, budgets := range [][]Owner{two[1:], two[:1], two} {
				mustDecide(t, b, ns, budgets, take(fmt.Sprint(i)))
			}
			got := pods(live(t, ns, two...))
			if !slices.Contains(got, "0") || !slices.Contains(got, "1") || !slices.Contains(got, "2") {
				t.Errorf("entries %v, want those after the deletion", got)
			}
		})
	}
}

// A namespace that is being deleted takes no new objects. The guard lets its pods go.
func TestNewBookInANamespaceThatEndsIsAnError(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	if err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		_, err := b.Decide(t.Context(), ns, []Owner{budget("web")}, take("a"))
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("error %w, want that the namespace ends", err)
		}
		return nil
	})
}
