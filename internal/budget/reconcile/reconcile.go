package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// checkAgain is the longest time between two reconciles of a budget: workloads of other kinds
// and the guard itself have no event that the controller sees.
const checkAgain = time.Minute

// wakeSoon is when to look again for controllers that learn of no free unit.
const wakeSoon = 5 * time.Second

// Reconciler brings the status of PodUnavailableBudgets and DistributedPodDisruptionBudgets in line with what
// runs. The latter have the names of budget.NameOf in requests, books and memories.
//
// One reconcile counts every pod of the budget that changed since the last one, and the next
// one waits for a second. A burst of pods costs one write a second, not one write each.
type Reconciler struct {
	Client client.Client
	// Reader gathers what a budget counts, as for the guard.
	Reader *disruption.Reader
	Books  *books.Books
	// Peers reads the budgets of other sites.
	Peers *peers.Peers
	// Prober reports whether the guard is called.
	Prober *Prober
	// Kinds tells the controllers of which workloads can be made to retry.
	Kinds   *workloads.Registry
	Clock   clock.PassiveClock
	Events  events.EventRecorder
	Metrics *Metrics

	memory memory
}

// Reconcile counts the pods of one budget.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pub, divided, err := r.get(ctx, req.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		r.memory.forget(req.NamespacedName)
		r.Metrics.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get %s in namespace %s: %w", budget.Title(req.Name), req.Namespace, err)
	}
	now := r.Clock.Now()
	last := r.memory.of(req.NamespacedName, pub.UID, now)
	if wait := last.wait(pub, pauseOf(divided), now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if wait := r.memory.turn(req.NamespacedName, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	last.ran = now
	r.memory.put(req.NamespacedName, last)
	return r.reconcile(ctx, pub, divided, last)
}

// get reads a budget of either kind.
func (r *Reconciler) get(ctx context.Context, key client.ObjectKey) (*policyv1beta1.PodUnavailableBudget, *limpetv1alpha1.DistributedPodDisruptionBudget, error) {
	name, distributed := budget.Distributed(key.Name)
	if !distributed {
		pub := &policyv1beta1.PodUnavailableBudget{}
		err := r.Client.Get(ctx, key, pub)
		return pub, nil, err //nolint:wrapcheck // the caller does
	}
	divided := &limpetv1alpha1.DistributedPodDisruptionBudget{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, divided)
	return budget.Undivided(divided), divided, err //nolint:wrapcheck // the caller does
}

// wait returns how long a reconcile has to wait: for the end of the pause, or for the cache to
// show the last write.
func (k known) wait(pub *policyv1beta1.PodUnavailableBudget, pause time.Duration, now time.Time) time.Duration {
	if wait := k.ran.Add(pause).Sub(now); wait > 0 && !k.ran.IsZero() {
		return min(wait, pause)
	}
	return min(k.write.Unseen(pub.ResourceVersion, now), pause)
}

func (r *Reconciler) reconcile(
	ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, divided *limpetv1alpha1.DistributedPodDisruptionBudget, last known,
) (ctrl.Result, error) {
	s, err := r.gather(ctx, pub, divided, last)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gather for %s in namespace %s: %w", budget.Title(pub.Name), pub.Namespace, err)
	}
	sights, lost, again := s.observation().compare(last.sights)
	if s.guard.ending { // the guard makes no entry in such a namespace
		lost = nil
	}
	if slices.ContainsFunc(lost, func(l loss) bool { return l.cause == causeNotJudged }) {
		last.missed, s.missed = s.now, s.now
		r.Prober.again(pub.Namespace)
		if s.guard, err = r.Prober.state(ctx, pub.Namespace, s.now); err != nil {
			return ctrl.Result{}, err
		}
	}
	if s.book, err = r.keepBook(ctx, &s, lost); err != nil {
		return ctrl.Result{}, err
	}
	last.offer = s.offered(last.offer)
	if s.covered.Budget.Sites != nil {
		last.busy = s.lastBusy(last.busy)
	}
	if s.book, err = r.exchange(ctx, &s); err != nil {
		return ctrl.Result{}, err
	}
	status := s.status()
	switch err := r.write(ctx, &s, status); {
	case apierrors.IsNotFound(err): // the cache will show that
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	last.woken, err = r.wake(ctx, &s, last, status.UnavailableAllowed)
	r.finish(&s, last, sights, lost, status)
	if status.UnavailableAllowed > 0 && slices.ContainsFunc(s.book.Waiting, func(w ledger.Waiting) bool { return w.ByWorkload }) { // it may be silent by then
		again = soonest(again, wakeSoon)
	}
	return ctrl.Result{RequeueAfter: s.again(again)}, err
}

// finish remembers and reports what the status says by now.
func (r *Reconciler) finish(s *situation, last known, sights map[types.UID]sight, lost []loss, status policyv1beta1.PodUnavailableBudgetStatus) {
	key := client.ObjectKeyFromObject(s.pub)
	tell := last.told.next(about(s.book.Decisions, s.pub), s.now)
	tellLost := len(lost) > 0 && s.now.Sub(last.noted) >= tellAgain
	if tellLost {
		last.noted = s.now
	}
	last.sights, last.write = sights, cluster.Write{Version: s.pub.ResourceVersion, At: s.now}
	r.memory.put(key, last)
	r.report(s.pub, s, tell, lost, tellLost)
	r.Metrics.shown(key, conditionOf(status, s))
}

// keepBook removes the entries that have served from the book, and notes losses in it. A book
// that needs no change is not written.
func (r *Reconciler) keepBook(ctx context.Context, s *situation, lost []loss) (ledger.Book, error) {
	_, fresh := ledger.Refresh(s.book, s.seen, s.now)
	if book, ended := ledger.Observe(s.book, s.seen, s.now); !fresh && len(ended) == 0 && len(lost) == 0 {
		return book, nil // without the requests that no client has repeated
	}
	book, err := r.Books.Decide(ctx, books.OfBudgets(s.pub.Namespace), func(book ledger.Book) (ledger.Book, bool) {
		book, changed := ledger.Refresh(book, s.seen, s.now)
		book, ended := ledger.Observe(book, s.seen, s.now)
		changed = changed || len(ended) > 0
		for _, l := range lost {
			var noted bool
			book, noted = ledger.Note(book, l.decision(s.pub.Name, s.now))
			changed = changed || noted
		}
		return book, changed
	})
	if err != nil {
		return ledger.Book{}, fmt.Errorf("observe pods of %s in namespace %s: %w", budget.Title(s.pub.Name), s.pub.Namespace, err)
	}
	return book, nil
}

// decision is a loss as the history has it.
func (l loss) decision(of string, now time.Time) ledger.Decision {
	return ledger.Decision{
		Time: now, Pod: l.pod, Vector: string(budget.Lost), Verdict: string(budget.Accounted), Reason: string(l.cause), Budgets: []string{of},
	}
}

// write writes a status that differs from the present one.
func (r *Reconciler) write(ctx context.Context, s *situation, status policyv1beta1.PodUnavailableBudgetStatus) error {
	pub := s.pub
	if s.divided != nil {
		return r.writeDivided(ctx, s, status)
	}
	if equality.Semantic.DeepEqual(pub.Status, status) {
		return nil
	}
	before := pub.DeepCopy()
	pub.Status = status
	err := r.Client.Status().Patch(ctx, pub, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write status of PodUnavailableBudget %s: %w", client.ObjectKeyFromObject(pub), err)
	}
	return nil
}

// podNow reads a pod by its name; nil when the pod that has the name is another one, or none.
func (r *Reconciler) podNow(ctx context.Context, namespace, name string, uid types.UID) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != uid:
		return nil, nil //nolint:nilnil // a pod that is gone is an answer
	case err != nil:
		return nil, fmt.Errorf("get pod %s/%s: %w", namespace, name, err)
	}
	return &pod, nil
}
