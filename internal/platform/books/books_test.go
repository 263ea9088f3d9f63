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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
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

// budget is a budget that exists in the mind of the test alone: books need its name and UID.
func budget(name string) Owner { return Owner{Name: name, UID: uuid.NewUUID()} }

// sorted are budgets whose UIDs grow.
func sorted(n int) (budgets []Owner) {
	for i := range n {
		budgets = append(budgets, budget(fmt.Sprint("budget-", i)))
	}
	slices.SortFunc(budgets, func(a, b Owner) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return budgets
}

func entry(pod string) ledger.Entry {
	now := time.Now()
	return ledger.Entry{UID: pod, Pod: pod, Use: ledger.Gone, Vector: "evict", By: "drainer", Since: now, Expires: now.Add(ledger.Bound)}
}

// take is a decision that takes a pod into the book.
func take(pod string) func(ledger.Book) (ledger.Book, bool) {
	return func(b ledger.Book) (ledger.Book, bool) { return ledger.Take(b, entry(pod)) }
}

func mustDecide(t testing.TB, b *Books, ns string, budgets []Owner, decide func(ledger.Book) (ledger.Book, bool)) ledger.Book {
	t.Helper()
	book, err := b.Decide(t.Context(), ns, budgets, decide)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// object reads the object of a budget's book.
func object(t testing.TB, ns string, of types.UID) *limpetv1alpha1.DisruptionBook {
	t.Helper()
	var o limpetv1alpha1.DisruptionBook
	env.Read(t, client.ObjectKey{Namespace: ns, Name: string(of)}, &o)
	return &o
}

// live is what the books of budgets hold in the API server.
func live(t testing.TB, ns string, budgets ...Owner) ledger.Book {
	t.Helper()
	book, err := New(Options{Cached: env.Client, Clock: clock.RealClock{}}).Look(t.Context(), ns, budgets)
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
	ns, b, web := env.Namespace(t), replica(t), budget("web")
	e := entry("pod-1")
	e.Version, e.Generation, e.Restarts = "17", 3, 5
	asked := ledger.Waiting{UID: "u", Pod: "p", By: "drainer", Since: time.Unix(5, 6000), Last: time.Unix(7, 8000)}
	noted := ledger.Decision{Time: time.Unix(9, 1000), Pod: "p", Vector: "evict", Verdict: "Refused", Reason: "BudgetExhausted", By: "drainer", Budgets: []string{"web"}}
	mustDecide(t, b, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
		book, _ = ledger.Take(book, e)
		book, _ = ledger.Ask(book, asked)
		return ledger.Note(book, noted)
	})
	got := live(t, ns, web)
	want := ledger.Book{
		Name: string(web.UID), Entries: map[string]ledger.Entry{"pod-1": e},
		Waiting: []ledger.Waiting{asked}, Decisions: []ledger.Decision{noted},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool {
		return a.Truncate(time.Microsecond).Equal(b) || b.Truncate(time.Microsecond).Equal(a)
	})); diff != "" {
		t.Errorf("book (-want +got):\n%s", diff)
	}
	refs := object(t, ns, web.UID).OwnerReferences
	if len(refs) != 1 || refs[0].Kind != "PodUnavailableBudget" || refs[0].Name != "web" || refs[0].UID != web.UID || refs[0].Controller != nil {
		t.Errorf("owners %+v, want the budget", refs)
	}
	removed := mustDecide(t, b, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) { return ledger.Remove(book, e) })
	if len(removed.Entries) != 0 {
		t.Errorf("the failed request keeps its unit: %v", removed.Entries)
	}
}

func TestTwoReplicasNeverTakeMoreThanTheLimit(t *testing.T) {
	const limit, each = 7, 20
	ns, web := env.Namespace(t), budget("web")
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []string
	for r, b := range []*Books{replica(t), replica(t)} {
		for i := range each {
			wg.Go(func() {
				pod, allowed := fmt.Sprint(r, "-", i), false
				_, err := b.Decide(t.Context(), ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
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
	got := live(t, ns, web)
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
	ns, web := env.Namespace(t), budget("web")
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, []Owner{web}, take("first"))
	path := "/disruptionbooks/" + string(web.UID)
	before := traffic.Count(path)
	release := traffic.Hold(t, path)
	var wg sync.WaitGroup
	decide := func(i int) { wg.Go(func() { mustDecide(t, b, ns, []Owner{web}, take(fmt.Sprint(i))) }) }
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
		if waiting := len(b.lanes[client.ObjectKey{Namespace: ns, Name: string(web.UID)}]); waiting < many-1 {
			return fmt.Errorf("%d requests wait", waiting)
		}
		return nil
	})
	release()
	wg.Wait()
	if n := traffic.Count(path) - before; n > 5 {
		t.Errorf("%d writes for %d requests", n, many)
	}
	if got := live(t, ns, web); len(got.Entries) != many+1 {
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

func TestIndependentBudgetsDoNotWaitForEachOther(t *testing.T) {
	ns, slow, fast := env.Namespace(t), budget("slow"), budget("fast")
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, []Owner{slow}, take("first"))
	before, release := traffic.Count(string(slow.UID)), traffic.Hold(t, "/disruptionbooks/"+string(slow.UID))
	done := make(chan error)
	go func() {
		_, err := b.Decide(t.Context(), ns, []Owner{slow}, take("second"))
		done <- err
	}()
	testenv.Eventually(t, func() error {
		if traffic.Count(string(slow.UID)) == before {
			return errors.New("no request is held up")
		}
		return nil
	})
	if got := mustDecide(t, b, ns, []Owner{fast}, take("other")); got.Name != string(fast.UID) {
		t.Errorf("decided with the book %s", got.Name)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDecisionEndsWithItsContext(t *testing.T) {
	ns, web := env.Namespace(t), budget("web")
	c, traffic := env.Observe(t)
	b := New(Options{Client: c, Cached: env.Client, Live: env.Client, Clock: clock.RealClock{}})
	mustDecide(t, b, ns, []Owner{web}, take("first"))
	before, release := traffic.Count(string(web.UID)), traffic.Hold(t, "/disruptionbooks/"+string(web.UID))
	first := make(chan error)
	go func() {
		_, err := b.Decide(t.Context(), ns, []Owner{web}, take("second"))
		first <- err
	}()
	testenv.Eventually(t, func() error {
		if traffic.Count(string(web.UID)) == before {
			return errors.New("no request is held up")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var calls int
	_, err := b.Decide(ctx, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
		calls++
		return ledger.Take(book, entry("late"))
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), string(web.UID)) {
		t.Errorf("error %v, want the deadline and the book", err)
	}
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
	mustDecide(t, b, ns, []Owner{web}, take("third"))
	if diff := cmp.Diff([]string{"first", "second", "third"}, pods(live(t, ns, web))); diff != "" || calls != 0 {
		t.Errorf("%d calls after the end; entries (-want +got):\n%s", calls, diff)
	}
}

// Another component could write a book all the time. A request then ends in time, and says why.
func TestEndlessConflictsAreAnError(t *testing.T) {
	ns, web, b, other := env.Namespace(t), budget("web"), replica(t), replica(t)
	mustDecide(t, b, ns, []Owner{web}, take("first"))
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would end a slow machine's first call
	defer cancel()
	var calls int
	_, err := b.Decide(ctx, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
		if calls++; calls == 3 {
			cancel()
		}
		mustDecide(t, other, ns, []Owner{web}, take(fmt.Sprint("other-", calls)))
		return ledger.Take(book, entry("mine"))
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after 2 conflicts with other replicas") || calls != 3 {
		t.Errorf("error %v after %d calls, want the end of the request and the conflicts", err, calls)
	}
	if got := pods(live(t, ns, web)); slices.Contains(got, "mine") {
		t.Errorf("entries %v: a decision from an old book was written", got)
	}
}

// A client may repeat a refused request as fast as it can.
func TestRepeatedRequestsAreNotWritten(t *testing.T) {
	ns, web, b := env.Namespace(t), budget("web"), replica(t)
	now := time.Now()
	for range 10 {
		mustDecide(t, b, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
			return ledger.Ask(book, ledger.Waiting{UID: "1", Pod: "pod", By: "client", Since: now, Last: now})
		})
	}
	if got := object(t, ns, web.UID); got.Generation != 2 || len(got.Waiting) != 1 {
		t.Errorf("%d writes after the creation, waiting %v; want one", got.Generation-1, got.Waiting)
	}
}

// A refusal that is not written, or a unit that is taken already, must be true of the newest book.
func TestAnswerWithoutAWriteIsFromTheNewestBook(t *testing.T) {
	ns, web, other := env.Namespace(t), budget("web"), replica(t)
	e := entry("pod")
	mustDecide(t, other, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) { return ledger.Take(book, e) })
	old := &oldCache{Reader: env.Client, book: *object(t, ns, web.UID)}
	b := New(Options{Client: env.Client, Live: env.Client, Cached: old, Clock: clock.RealClock{}})
	mustDecide(t, other, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) { return ledger.Remove(book, e) })
	var has bool
	mustDecide(t, b, ns, []Owner{web}, func(book ledger.Book) (ledger.Book, bool) {
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
	ns, web, b := env.Namespace(t), budget("web"), replica(t)
	if _, err := b.Decide(t.Context(), ns, []Owner{web}, func(ledger.Book) (ledger.Book, bool) { panic("oh") }); err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("error %v, want the panic", err)
	}
	mustDecide(t, b, ns, []Owner{web}, take("next"))
}

// The webhook may answer in a replica whose cache has not caught up with its own writes.
func TestReplicaBuildsOnItsOwnLastWrite(t *testing.T) {
	const many = 30
	ns, web := env.Namespace(t), budget("web")
	c, traffic := env.Observe(t)
	cached := env.RunCache(t, cluster.CacheOptions(Needs()), func(client.FieldIndexer) error { return nil })
	b := New(Options{Client: c, Live: c, Cached: cached, Clock: clock.RealClock{}})
	for i := range many {
		if got := mustDecide(t, b, ns, []Owner{web}, take(fmt.Sprint(i))); len(got.Entries) != i+1 {
			t.Fatalf("%d entries after %d decisions", len(got.Entries), i+1)
		}
	}
	if n := traffic.Count("disruptionbooks"); n != many+1 {
		t.Errorf("%d requests for %d decisions, want one each and the creation", n, many)
	}
}

func TestLookWritesNothing(t *testing.T) {
	ns, two := env.Namespace(t), sorted(2)
	b := replica(t)
	mustDecide(t, b, ns, two[:1], take("a"))
	mustDecide(t, b, ns, two[1:], take("b"))
	got, err := b.Look(t.Context(), ns, two)
	if diff := cmp.Diff([]string{"a", "b"}, pods(got)); diff != "" || err != nil || got.Name != string(two[0].UID) {
		t.Errorf("book %s, %v, entries (-want +got):\n%s", got.Name, err, diff)
	}
	if joined := object(t, ns, two[1].UID).Joined; joined != "" {
		t.Errorf("a reader joined the books: %s", joined)
	}
	if none, err := b.Look(t.Context(), ns, []Owner{budget("new")}); err != nil || len(none.Entries) != 0 {
		t.Errorf("budget without a book: %v, %v", none, err)
	}
	var list limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil || len(list.Items) != 2 {
		t.Errorf("%d books, %v; want 2", len(list.Items), err)
	}
}
