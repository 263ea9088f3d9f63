package reconcile

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/mark"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Labeler labels the namespaces that have WorkloadSpreads. The API server sends new pods of
// labelled namespaces alone. The webhook that validates a spread sets the label first; the
// Labeler restores, changes and removes the label.
type Labeler struct {
	Client client.Client
	// Live reads past the cache before a label is removed.
	Live  client.Reader
	Clock clock.PassiveClock
}

// SetupWithManager registers the reconciler and what triggers it.
func (l *Labeler) SetupWithManager(mgr ctrl.Manager) error {
	own := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("spread-label").
		Watches(&corev1.Namespace{}, mark.Spreads.Handler(), builder.WithPredicates(labelChanged)).
		Watches(&appsv1beta1.WorkloadSpread{}, own, builder.WithPredicates(policyChanged)).
		WithOptions(controller.Options{RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Complete(cluster.RetryOnConflict[reconcile.Request](l))
}

// labelChanged passes the changes of a namespace that the label depends on.
var labelChanged = predicate.Funcs{
	UpdateFunc: mark.Spreads.Changed,
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// policyChanged passes new and deleted spreads, and those with other annotations than before.
var policyChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	},
}

// Reconcile brings the label of one namespace in line with its spreads.
func (l *Labeler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	switch err := l.Client.Get(ctx, req.NamespacedName, &ns); {
	case apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil:
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get namespace %s: %w", req.Name, err)
	}
	wanted, err := l.wanted(ctx, l.Client, ns.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	keeper := mark.Keeper{Mark: mark.Spreads, Client: l.Client, Live: l.Live, Clock: l.Clock}
	again, err := keeper.Keep(ctx, &ns, wanted, func(ctx context.Context) (string, error) { return l.wanted(ctx, l.Live, ns.Name) })
	return ctrl.Result{RequeueAfter: again}, err
}

// wanted returns the label that the spreads of a namespace need; "" for none. One closed spread
// closes the namespace: the API server cannot tell pods apart by their spread.
func (l *Labeler) wanted(ctx context.Context, from client.Reader, namespace string) (string, error) {
	var list appsv1beta1.WorkloadSpreadList
	if err := from.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list WorkloadSpreads in namespace %s: %w", namespace, err)
	}
	label := ""
	for i := range list.Items {
		if list.Items[i].Annotations[appsv1beta1.AnnotationSpreadFailure] != appsv1beta1.SpreadOpen {
			return mark.Closed, nil
		}
		label = mark.Open
	}
	return label, nil
}
