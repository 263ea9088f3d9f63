package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// gathering is how long events of one spread are gathered: many pods often start together.
const gathering = 250 * time.Millisecond

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	sized := builder.WithPredicates(predicate.GenerationChangedPredicate{}) // the cache keeps sizes alone
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("spread").
		For(&appsv1beta1.WorkloadSpread{}, builder.WithPredicates(specChanged)).
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), cluster.NoneAtStart, later(r.spreadsOfPod), podChanged)).
		Watches(&appsv1.Deployment{}, later(r.spreadsOver("Deployment")), sized).
		Watches(&appsv1.StatefulSet{}, later(r.spreadsOver("StatefulSet")), sized).
		Watches(&appsv1.ReplicaSet{}, later(r.spreadsOver("ReplicaSet")), sized).
		Watches(&batchv1.Job{}, later(r.spreadsOver("Job")), sized).
		Watches(&limpetv1alpha1.DisruptionBook{}, later(r.readersOf)).
		WatchesRawSource(source.Channel(r.Kinds.Registry.SpreadsChanged(), later(r.allSpreads))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4, NewQueue: cluster.InTurn(2, cluster.NamespaceOf),
			RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Build(cluster.RetryOnConflict(r))
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	r.watchKinds(mgr.GetCache(), c)
	return nil
}

// later triggers spreads after events of one object.
func later(find func(context.Context, client.Object) []appsv1beta1.WorkloadSpread) handler.Funcs {
	add := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, ws := range find(ctx, o) {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&ws)}, gathering)
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectNew) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, q, e.Object) },
	}
}

// spreadsOfPod are the spreads whose target is an owner of a pod.
func (r *Reconciler) spreadsOfPod(ctx context.Context, o client.Object) (all []appsv1beta1.WorkloadSpread) {
	chain, err := cluster.ChainOf(ctx, r.Client, o.(*corev1.Pod))
	if err != nil { // only a cache that is being stopped returns an error
		return nil
	}
	for _, owner := range chain {
		all = append(all, r.spreadsFor(ctx, o.GetNamespace(), owner.Target)...)
		all = append(all, r.spreadsAbove(ctx, o.GetNamespace(), owner.GroupKind())...)
	}
	return all
}

// spreadsOver are the spreads whose target is a workload of a kind, or controls that workload.
func (r *Reconciler) spreadsOver(kind string) func(context.Context, client.Object) []appsv1beta1.WorkloadSpread {
	group := appsv1.GroupName
	if kind == jobs.Kind {
		group = batchv1.GroupName
	}
	return func(ctx context.Context, o client.Object) []appsv1beta1.WorkloadSpread {
		all := r.spreadsFor(ctx, o.GetNamespace(), workload.Target{Group: group, Kind: kind, Name: o.GetName()})
		if owner, owned := workload.ControllerOf(o); owned {
			all = append(all, r.spreadsFor(ctx, o.GetNamespace(), owner.Target)...)
		}
		return all
	}
}

func (r *Reconciler) spreadsFor(ctx context.Context, namespace string, target workload.Target) []appsv1beta1.WorkloadSpread {
	found, err := cluster.SpreadsOf(ctx, r.Client, namespace, target)
	if err != nil { // see spreadsOfPod
		return nil
	}
	return found
}

// readersOf finds the spread of a book.
func (r *Reconciler) readersOf(ctx context.Context, o client.Object) []appsv1beta1.WorkloadSpread {
	var list appsv1beta1.WorkloadSpreadList
	if err := r.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil { // see spreadsOfPod
		return nil
	}
	return slices.DeleteFunc(list.Items, func(ws appsv1beta1.WorkloadSpread) bool { return string(ws.UID) != o.GetName() })
}

// specChanged passes the changes of a spread by a user. A status that is changed by another
// client is written again at the next event.
var specChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*appsv1beta1.WorkloadSpread), e.ObjectNew.(*appsv1beta1.WorkloadSpread)
		return before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations)
	},
}

// podChanged passes the changes of a pod that a spread counts or waits for.
var podChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName ||
			workload.Alive(before) != workload.Alive(after) || workload.Ready(before) != workload.Ready(after) ||
			len(before.Spec.SchedulingGates) != len(after.Spec.SchedulingGates) || verdictOf(before) != verdictOf(after) ||
			!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels)
	},
}

// verdictOf is what the scheduler says about a pod.
func verdictOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Reason
		}
	}
	return ""
}
