package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// gathering is how long events of one ReplicaSet are gathered: many pods often start together.
const gathering = 100 * time.Millisecond

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.Metrics.memory.Store(&r.memory)
	return ctrl.NewControllerManagedBy(mgr).
		Named("scale-in").
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), marked, r.podHandler(), podChanged)).
		Watches(&appsv1.ReplicaSet{}, r.setHandler(), builder.WithPredicates(setChanged)).
		Watches(&appsv1.Deployment{}, later(r.setsOf), builder.WithPredicates(deploymentChanged)).
		Watches(&appsv1beta1.WorkloadSpread{}, later(r.setsUnder), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4, NewQueue: cluster.InTurn(2, cluster.NamespaceOf),
			RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Complete(cluster.RetryOnConflict(r))
}

// later triggers ReplicaSets after events of one object.
func later(find func(context.Context, client.Object) []types.NamespacedName) handler.Funcs {
	add := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, key := range find(ctx, o) {
				q.AddAfter(reconcile.Request{NamespacedName: key}, gathering)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object) },
	}
}

// marked passes the pods that have a cost of Limpet when the controller starts. Groups with an order
// are found by their ReplicaSets and spreads.
func marked(pod cluster.Outline) bool { return pod.Annotated(appsv1beta1.AnnotationDeletionCost) }

// podHandler triggers the ReplicaSet of a pod, if its pods have an order or had one.
func (r *Reconciler) podHandler() handler.Funcs {
	return later(func(ctx context.Context, o client.Object) []types.NamespacedName {
		owner, owned := workload.ControllerOf(o)
		if !owned || owner.Group != appsv1.GroupName || owner.Kind != "ReplicaSet" {
			return nil
		}
		key := client.ObjectKey{Namespace: o.GetNamespace(), Name: owner.Name}
		if _, marked := o.GetAnnotations()[appsv1beta1.AnnotationDeletionCost]; !marked && !r.ordered(ctx, key) {
			return nil
		}
		return []types.NamespacedName{key}
	})
}

// ordered reports whether the pods of a ReplicaSet have an order.
func (r *Reconciler) ordered(ctx context.Context, key client.ObjectKey) bool {
	return r.has(ctx, key, balanced)
}

// has reports whether a workload whose pods have no spread is one of some, or its pods have one.
func (r *Reconciler) has(ctx context.Context, key client.ObjectKey, which func(client.Object) bool) bool {
	var set appsv1.ReplicaSet
	if err := r.Client.Get(ctx, key, &set, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	of, err := r.workloadOf(ctx, &set)
	if of == nil || err != nil {
		return false
	}
	found, err := r.spreadsOf(ctx, set.Namespace, chainOf(&set))
	return err == nil && (which(of) || len(found.objects) > 0)
}

// setHandler triggers the ReplicaSets after events of one. When the controller starts, only those
// are triggered that ask for an order, even an unknown one, or that have a spread.
func (r *Reconciler) setHandler() handler.Funcs {
	h := later(r.siblings)
	always := h.CreateFunc
	h.CreateFunc = func(ctx context.Context, e event.CreateEvent, q queue) {
		if !e.IsInInitialList || r.has(ctx, client.ObjectKeyFromObject(e.Object), asked) {
			always(ctx, e, q)
		}
	}
	return h
}

// setsUnder are the ReplicaSets of the target of a spread, and of its owner.
func (r *Reconciler) setsUnder(ctx context.Context, o client.Object) (keys []types.NamespacedName) {
	target := workload.TargetOf(o.(*appsv1beta1.WorkloadSpread).Spec.TargetReference)
	var sets appsv1.ReplicaSetList
	if err := r.Client.List(ctx, &sets, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // see owned
	}
	for i := range sets.Items {
		if slices.ContainsFunc(chainOf(&sets.Items[i]), func(owner workload.Owner) bool { return owner.Target == target }) {
			keys = append(keys, client.ObjectKeyFromObject(&sets.Items[i]))
		}
	}
	return keys
}

// siblings are a ReplicaSet and the others of its Deployment: a new revision makes them old.
func (r *Reconciler) siblings(ctx context.Context, o client.Object) []types.NamespacedName {
	if owner, owned := workload.ControllerOf(o); owned {
		return r.owned(ctx, o.GetNamespace(), owner.UID)
	}
	return []types.NamespacedName{client.ObjectKeyFromObject(o)}
}

// setsOf are the ReplicaSets of a Deployment.
func (r *Reconciler) setsOf(ctx context.Context, o client.Object) []types.NamespacedName {
	return r.owned(ctx, o.GetNamespace(), o.GetUID())
}

func (r *Reconciler) owned(ctx context.Context, namespace string, owner types.UID) (keys []types.NamespacedName) {
	sets, err := cluster.ReplicaSetsOf(ctx, r.Client, namespace, owner)
	if err != nil { // only a cache that is being stopped returns an error
		return nil
	}
	for i := range sets {
		keys = append(keys, client.ObjectKeyFromObject(&sets[i]))
	}
	return keys
}

// podChanged passes the changes of a pod that change its place in the order.
var podChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName ||
			workload.Alive(before) != workload.Alive(after) ||
			!maps.Equal(before.Annotations, after.Annotations) || // only annotations that the cache keeps
			!maps.Equal(before.Labels, after.Labels)
	},
}

// setChanged passes the changes of a ReplicaSet by a user or by its Deployment.
var setChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// deploymentChanged passes the changes of what a Deployment says about the order. When the controller
// starts, the ReplicaSets are seen themselves.
var deploymentChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*appsv1.Deployment), e.ObjectNew.(*appsv1.Deployment)
		return before.UID != after.UID || !maps.Equal(before.Annotations, after.Annotations)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}
