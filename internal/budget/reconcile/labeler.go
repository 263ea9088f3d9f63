package reconcile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Labeler labels the namespaces that have budgets, or several PodDisruptionBudgets of one pod.
// The API server asks the guard about pods of labelled namespaces only. The webhook that
// validates a budget sets the label first; the Labeler restores, changes and removes the label.
// Where the owner of a namespace asks for that, it also replaces such PodDisruptionBudgets.
type Labeler struct {
	Client client.Client
	// Pods are in a cache of all namespaces.
	Pods cache.Informers
	// Live reads past the cache before a label is removed.
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder

	rests fair.Rests[string]
}

// SetupWithManager registers the reconciler and what triggers it.
func (l *Labeler) SetupWithManager(mgr ctrl.Manager) error {
	own := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("budget-label").
		Watches(&corev1.Namespace{}, mark.Budgets.Handler(), builder.WithPredicates(labelChanged)).
		Watches(&policyv1beta1.PodUnavailableBudget{}, own, builder.WithPredicates(specChanged)).
		Watches(&limpetv1alpha1.DistributedPodDisruptionBudget{}, own, builder.WithPredicates(specChanged)).
		Watches(&policyv1.PodDisruptionBudget{}, own, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), cluster.NoneAtStart, own, gatedChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2, RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Complete(cluster.RetryOnConflict[reconcile.Request](l))
}

// gatedChanged passes pods with the gate limpet.dev/in-service that come or end.
var gatedChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return budget.Gated(e.Object.(*corev1.Pod)) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return budget.Gated(after) && (before.UID != after.UID || workload.Alive(before) != workload.Alive(after))
	},
	DeleteFunc: func(e event.DeleteEvent) bool { return budget.Gated(e.Object.(*corev1.Pod)) },
}

// labelChanged passes the changes of a namespace that the label depends on.
var labelChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return mark.Budgets.Changed(e) ||
			e.ObjectOld.GetAnnotations()[policyv1beta1.AnnotationReplace] != e.ObjectNew.GetAnnotations()[policyv1beta1.AnnotationReplace]
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// Reconcile brings the label of one namespace in line with its budgets.
func (l *Labeler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	switch err := l.Client.Get(ctx, req.NamespacedName, &ns); {
	case apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil:
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get namespace %s: %w", req.Name, err)
	}
	if wait := l.rests.Left(ns.Name, l.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	n, err := l.gather(ctx, &ns)
	if err != nil {
		return ctrl.Result{}, err
	}
	l.rests.Begin(ns.Name, l.Clock.Now(), restAfter(n.read))
	keeper := mark.Keeper{Mark: mark.Budgets, Client: l.Client, Live: l.Live, Clock: l.Clock}
	idle, err := keeper.Keep(ctx, &ns, n.wanted(), func(ctx context.Context) (string, error) { return l.live(ctx, n) })
	if err != nil {
		return ctrl.Result{}, err
	}
	again, err := l.replace(ctx, n)
	return ctrl.Result{RequeueAfter: soonest(again, soonest(idle, n.again()))}, err
}

// Rests between two looks at one namespace grow with what a look reads: a pod or a budget takes some 3 µs. So the
// looks at a namespace take a thirtieth of the time of one worker.
const (
	restEach    = 100 * time.Microsecond
	shortest    = 50 * time.Millisecond // a shorter rest is none
	longestRest = pairsAgain
)

// restAfter is how long a namespace rests after a look that read as many objects.
func restAfter(objects int) time.Duration {
	rest := min(time.Duration(objects)*restEach, longestRest)
	if rest < shortest {
		return 0
	}
	return rest
}

// live returns the label that the budgets need which the API server has.
func (l *Labeler) live(ctx context.Context, n neighbourhood) (string, error) {
	budgets, err := budgetsOf(ctx, l.Live, n.ns.Name)
	return wantedOf(budgets, len(n.pairs) > 0, n.asked), err
}
