package books

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme))
}

// replica makes the books of one replica, which has a cache and the rights of the controller.
func replica(t testing.TB) *Books {
	t.Helper()
	config := rest.CopyConfig(env.AsController(t))
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: env.Scheme, Mapper: env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	cached := env.RunCache(t, cluster.CacheOptions(Needs()), func(client.FieldIndexer) error { return nil })
	return New(Options{Client: c, Cached: cached, Live: c, Clock: clock.RealClock{}})
}

func entry(pod string) ledger.Entry {
	now := time.Now()
	return ledger.Entry{UID: pod, Pod: pod, Use: ledger.Gone, Vector: "evict", By: "drainer", Since: now, Expires: now.Add(ledger.Bound)}
}

// take is a decision that takes a pod into the book.
func take(pod string) func(ledger.Book) (ledger.Book, bool) {
	return func(b ledger.Book) (ledger.Book, bool) { return ledger.Take(b, entry(pod)) }
}

func mustDecide(t testing.TB, b *Books, ns string, decide func(ledger.Book) (ledger.Book, bool)) ledger.Book {
	t.Helper()
	book, err := b.Decide(t.Context(), OfBudgets(ns), decide)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// object reads the object of a namespace's book.
func object(t testing.TB, ns string) *limpetv1alpha1.DisruptionBook {
	t.Helper()
	var o limpetv1alpha1.DisruptionBook
	env.Read(t, OfBudgets(ns).object, &o)
	return &o
}

// live is what a book holds in the API server.
func live(t testing.TB, of Key) ledger.Book {
	t.Helper()
	book, err := New(Options{Cached: env.Client, Clock: clock.RealClock{}}).Look(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func pods(b ledger.Book) (names []string) {
	for uid := range b.Entries {
		names = append(names, uid)
	}
	slices.Sort(names)
	return names
}

func TestDecisionIsKept(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	e := entry("pod-1")
	e.Version, e.Generation, e.Restarts = "17", 3, 5
	asked := ledger.Waiting{UID: "u", Pod: "p", By: "drainer", ByWorkload: true, Blocked: true, Since: time.Unix(5, 6000), Last: time.Unix(7, 8000)}
	noted := ledger.Decision{Time: time.Unix(9, 1000), Pod: "p", Vector: "evict", Verdict: "Refused", Reason: "BudgetExhausted", By: "drainer", Budgets: []string{"web"}}
	mustDecide(t, b, ns, func(book ledger.Book) (ledger.Book, bool) {
		book, _ = ledger.Take(book, e)
		book, _ = ledger.Ask(book, asked)
		return ledger.Note(book, noted)
	})
	got := live(t, OfBudgets(ns))
	want := ledger.Book{
		Name: nameOfBudgets, Entries: map[string]ledger.Entry{"pod-1": e},
		Waiting: []ledger.Waiting{asked}, Decisions: []ledger.Decision{noted},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool {
		return a.Truncate(time.Microsecond).Equal(b) || b.Truncate(time.Microsecond).Equal(a)
	})); diff != "" {
		t.Errorf("book (-want +got):\n%s", diff)
	}
	if refs := object(t, ns).OwnerReferences; len(refs) > 0 {
		t.Errorf("owners %+v: the book would go with them", refs)
	}
	removed := mustDecide(t, b, ns, func(book ledger.Book) (ledger.Book, bool) { return ledger.Remove(book, e) })
	if len(removed.Entries) != 0 {
		t.Errorf("the failed request keeps its unit: %v", removed.Entries)
	}
}

func TestTwoReplicasNeverTakeMoreThanTheLimit(t *testing.T) {
	const limit, each = 7, 20
	ns := env.Namespace(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []string
	for r, b := range []*Books{replica(t), replica(t)} {
		for i := range each {
			wg.Go(func() {
				pod, allowed := fmt.Sprint(r, "-", i), false
				_, err := b.Decide(t.Context(), OfBudgets(ns), func(book ledger.Book) (ledger.Book, bool) {
					if allowed = len(book.Entries) < limit; !allowed {
						return ledger.Ask(book, ledger.Waiting{Pod: pod, Since: time.Now(), Last: time.Now()})
					}
					return ledger.Take(book, entry(pod))
				})
				if err != nil {
					t.Error(err)
				}
				if allowed {
					mu.Lock()
					took = append(took, pod)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	slices.Sort(took)
	got := live(t, OfBudgets(ns))
	if diff := cmp.Diff(took, pods(got)); diff != "" || len(took) != limit {
		t.Errorf("%d pods were allowed; book (-allowed +entries):\n%s", len(took), diff)
	}
	if len(got.Waiting) != 2*each-limit {
		t.Errorf("%d requests wait, want all the others", len(got.Waiting))
	}
}

// Requests that come together are written together: else a drain of a large node would take
// a write for each pod, one after the other.
func TestRequestsThatComeTogetherAreOneWrite(t *testing.T) {
	const many = 50
	ns := env.Namespace(t)
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, take("first"))
	path := "/disruptionbooks/" + nameOfBudgets
	before := traffic.Count(path)
	release := traffic.Hold(t, path)
	var wg sync.WaitGroup
	decide := func(i int) { wg.Go(func() { mustDecide(t, b, ns, take(fmt.Sprint(i))) }) }
	decide(0)
	testenv.Eventually(t, func() error { // the write of the first request is held
		if traffic.Count(path) == before {
			return errors.New("no request is held up")
		}
		return nil
	})
	for i := 1; i < many; i++ {
		decide(i)
	}
	testenv.Eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if waiting := len(b.lanes[OfBudgets(ns).object]); waiting < many-1 {
			return fmt.Errorf("%d requests wait", waiting)
		}
		return nil
	})
	release()
	wg.Wait()
	if n := traffic.Count(path) - before; n > 5 {
		t.Errorf("%d writes for %d requests", n, many)
	}
	if got := live(t, OfBudgets(ns)); len(got.Entries) != many+1 {
		t.Errorf("%d entries, want %d", len(got.Entries), many+1)
	}
	testenv.Eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.lanes) != 0 {
			return errors.New("a lane stays")
		}
		return nil
	})
}

func TestNamespacesDoNotWaitForEachOther(t *testing.T) {
	slow, fast := env.Namespace(t), env.Namespace(t)
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, slow, take("first"))
	before, release := traffic.Count(slow), traffic.Hold(t, slow)
	done := make(chan error)
	go func() {
		_, err := b.Decide(t.Context(), OfBudgets(slow), take("second"))
		done <- err
	}()
	testenv.Eventually(t, func() error {
		if traffic.Count(slow) == before {
			return errors.New("no request is held up")
		}
		return nil
	})
	mustDecide(t, b, fast, take("other"))
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDecisionEndsWithItsContext(t *testing.T) {
	ns := env.Namespace(t)
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, take("first"))
	before, release := traffic.Count(nameOfBudgets), traffic.Hold(t, "/disruptionbooks/"+nameOfBudgets)
	first := make(chan error)
	go func() {
		_, err := b.Decide(t.Context(), OfBudgets(ns), take("second"))
		first <- err
	}()
	testenv.Eventually(t, func() error {
		if traffic.Count(nameOfBudgets) == before {
			return errors.New("no request is held up")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var calls int
	_, err := b.Decide(ctx, OfBudgets(ns), func(book ledger.Book) (ledger.Book, bool) {
		calls++
		return ledger.Take(book, entry("late"))
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), nameOfBudgets) {
		t.Errorf("error %v, want the deadline and the book", err)
	}
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
	mustDecide(t, b, ns, take("third"))
	if diff := cmp.Diff([]string{"first", "second", "third"}, pods(live(t, OfBudgets(ns)))); diff != "" || calls != 0 {
		t.Errorf("%d calls after the end; entries (-want +got):\n%s", calls, diff)
	}
}

// Another component could write a book all the time. A request then ends in time, and says why.
func TestEndlessConflictsAreAnError(t *testing.T) {
	ns, b, other := env.Namespace(t), replica(t), replica(t)
	mustDecide(t, b, ns, take("first"))
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would end a slow machine's first call
	defer cancel()
	var calls int
	_, err := b.Decide(ctx, OfBudgets(ns), func(book ledger.Book) (ledger.Book, bool) {
		if calls++; calls == 3 {
			cancel()
		}
		mustDecide(t, other, ns, take(fmt.Sprint("other-", calls)))
		return ledger.Take(book, entry("mine"))
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after 2 conflicts with other replicas") || calls != 3 {
		t.Errorf("error %v after %d calls, want the end of the request and the conflicts", err, calls)
	}
	if got := pods(live(t, OfBudgets(ns))); slices.Contains(got, "mine") {
		t.Errorf("entries %v: a decision from an old book was written", got)
	}
}

// A client may repeat a refused request as fast as it can.
func TestRepeatedRequestsAreNotWritten(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	now := time.Now()
	for range 10 {
		mustDecide(t, b, ns, func(book ledger.Book) (ledger.Book, bool) {
			return ledger.Ask(book, ledger.Waiting{UID: "1", Pod: "pod", By: "client", Since: now, Last: now})
		})
	}
	if got := object(t, ns); got.Generation != 2 || len(got.Waiting) != 1 {
		t.Errorf("%d writes after the creation, waiting %v; want one", got.Generation-1, got.Waiting)
	}
}

// A refusal that is not written, or a unit that is taken already, must be true of the newest book.
func TestAnswerWithoutAWriteIsFromTheNewestBook(t *testing.T) {
	ns, other := env.Namespace(t), replica(t)
	e := entry("pod")
	mustDecide(t, other, ns, func(book ledger.Book) (ledger.Book, bool) { return ledger.Take(book, e) })
	old := &oldCache{Reader: env.Client, book: *object(t, ns)}
	b := New(Options{Client: env.Client, Live: env.Client, Cached: old, Clock: clock.RealClock{}})
	mustDecide(t, other, ns, func(book ledger.Book) (ledger.Book, bool) { return ledger.Remove(book, e) })
	var has bool
	mustDecide(t, b, ns, func(book ledger.Book) (ledger.Book, bool) {
		_, has = book.Entries["pod"]
		return book, false
	})
	if has {
		t.Error("the decision relies on an entry that another replica removed")
	}
}

// oldCache shows one book as it once was, as a cache whose watch is slow.
type oldCache struct {
	client.Reader
	book limpetv1alpha1.DisruptionBook
}

func (c *oldCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if o, ok := into.(*limpetv1alpha1.DisruptionBook); ok && key == client.ObjectKeyFromObject(&c.book) {
		c.book.DeepCopyInto(o)
		return nil
	}
	return c.Reader.Get(ctx, key, into, options...)
}

func TestPanicOfADecisionIsItsError(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	if _, err := b.Decide(t.Context(), OfBudgets(ns), func(ledger.Book) (ledger.Book, bool) { panic("oh") }); err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("error %v, want the panic", err)
	}
	mustDecide(t, b, ns, take("next"))
}

// The webhook may answer in a replica whose cache has not caught up with its own writes.
func TestReplicaBuildsOnItsOwnLastWrite(t *testing.T) {
	const many = 30
	ns := env.Namespace(t)
	c, traffic := env.Observe(t)
	cached := env.RunCache(t, cluster.CacheOptions(Needs()), func(client.FieldIndexer) error { return nil })
	b := New(Options{Client: c, Live: c, Cached: cached, Clock: clock.RealClock{}})
	for i := range many {
		if got := mustDecide(t, b, ns, take(fmt.Sprint(i))); len(got.Entries) != i+1 {
			t.Fatalf("%d entries after %d decisions", len(got.Entries), i+1)
		}
	}
	if n := traffic.Count("disruptionbooks"); n != many+1 {
		t.Errorf("%d requests for %d decisions, want one each and the creation", n, many)
	}
}

func TestLookWritesNothing(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	if none, err := b.Look(t.Context(), OfBudgets(ns)); err != nil || len(none.Entries) != 0 {
		t.Errorf("a namespace without a book: %v, %v", none, err)
	}
	var list limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil || len(list.Items) != 0 {
		t.Errorf("%d books, %v; want none", len(list.Items), err)
	}
}

func TestABookThatAUserDeletedIsMadeAgain(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	mustDecide(t, b, ns, take("a"))
	env.Remove(t, object(t, ns))
	mustDecide(t, b, ns, take("b"))
	if got := pods(live(t, OfBudgets(ns))); !slices.Contains(got, "b") {
		t.Errorf("entries %v, want those after the deletion", got)
	}
}

// A namespace that is being deleted takes no new objects. The guard lets its pods go.
func TestNewBookInANamespaceThatEndsIsAnError(t *testing.T) {
	ns, b := env.Namespace(t), replica(t)
	if err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		_, err := b.Decide(t.Context(), OfBudgets(ns), take("a"))
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("error %w, want that the namespace ends", err)
		}
		return nil
	})
}
