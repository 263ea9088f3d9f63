package reconcile

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// SetupWithManager registers the reconciler and what triggers it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.budgetsIn)
	b := ctrl.NewControllerManagedBy(mgr)
	if err := mgr.Add(r.Peers); err != nil {
		return fmt.Errorf("watch peers: %w", err)
	}
	for _, o := range cluster.Workloads {
		b.Watches(o, all, builder.WithPredicates(sizeChanged))
	}
	return b.Named("budget").
		For(&policyv1beta1.PodUnavailableBudget{}, builder.WithPredicates(specChanged)).
		Watches(&limpetv1alpha1.DistributedPodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(divided), builder.WithPredicates(specChanged)).
		Watches(&limpetv1alpha1.DistributedPodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.peersOf), builder.WithPredicates(shareChanged)).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.peersOf)).
		WatchesRawSource(source.Channel(r.Peers.Events, handler.EnqueueRequestsFromMapFunc(r.peersOf))).
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), cluster.NoneAtStart, r.podHandler(), podChanged)).
		Watches(&limpetv1alpha1.DisruptionBook{}, r.bookHandler()).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.budgetsOf), builder.WithPredicates(labelChanged)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 6, NewQueue: cluster.InTurn(4, cluster.NamespaceOf),
			RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Complete(cluster.RetryOnConflict[reconcile.Request](r))
}

// divided is the request for a DistributedPodDisruptionBudget.
func divided(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: budget.NameOf(o.GetName())}}}
}

// peersOf are the requests for the budgets of this cluster that a budget of any cluster names.
func (r *Reconciler) peersOf(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	if pdb, plain := o.(*policyv1.PodDisruptionBudget); plain {
		requests = divided(ctx, pdb) // it may be a child that no budget asks for any more
		for _, of := range r.children(ctx, pdb.Namespace) {
			requests = append(requests, reconcile.Request{NamespacedName: of})
		}
		o = peers.Plain(pdb)
	}
	b, ok := o.(*limpetv1alpha1.DistributedPodDisruptionBudget)
	if !ok || len(b.Spec.Federation) == 0 {
		return requests
	}
	of, _, _ := strings.Cut(b.Status.Site, "/")
	for _, peer := range disruption.SpecOf(of, b).Members {
		if in, namespace, name := peer.Parts(); in == r.Peers.Cluster {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: budget.NameOf(name)}})
		}
	}
	return requests
}

// shareChanged passes budgets that show their peers something else than before.
var shareChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBudget := e.ObjectOld.(*limpetv1alpha1.DistributedPodDisruptionBudget)
		after, _ := e.ObjectNew.(*limpetv1alpha1.DistributedPodDisruptionBudget)
		return isBudget && (!equality.Semantic.DeepEqual(before.Status.Shares, after.Status.Shares) || before.Status.ExpectedPods != after.Status.ExpectedPods ||
			before.Generation != after.Generation)
	},
}

// sizeChanged passes workloads that want more or fewer pods than before.
var sizeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		_, before := cluster.MakesPods(e.ObjectOld)
		_, after := cluster.MakesPods(e.ObjectNew)
		return before != after || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	},
}
