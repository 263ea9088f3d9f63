package reconcile

import (
	"context"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// inTurn makes the namespaces of a reconciler's requests take turns.
func inTurn() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 4, NewQueue: cluster.InTurn(2, cluster.NamespaceOf),
		RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
	}
}

// SetupWithManager registers the reconciler.
func (o *Opener) SetupWithManager(mgr ctrl.Manager) error {
	o.Metrics.memory.Store(&o.memory)
	return ctrl.NewControllerManagedBy(mgr).
		Named("scale-out").
		For(&appsv1.StatefulSet{}, builder.WithPredicates(setChanged)).
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), cluster.NoneAtStart, handler.EnqueueRequestsFromMapFunc(o.setOf), podChanged)).
		WithOptions(inTurn()).
		Complete(cluster.RetryOnConflict(o))
}

// setOf is the StatefulSet of a pod, if a gate of the set may open.
func (o *Opener) setOf(ctx context.Context, pod client.Object) []reconcile.Request {
	owner, _ := workload.ControllerOf(pod)
	if owner.GroupKind() != sets.GroupKind() {
		return nil
	}
	key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: owner.Name}
	if !gated(pod.(*corev1.Pod)) {
		var set appsv1.StatefulSet
		if err := o.Client.Get(ctx, key, &set, client.UnsafeDisableDeepCopy); err != nil {
			return nil // without a set no gate waits for it
		}
		if _, limited, _ := limitOf(&set); !limited {
			return nil
		}
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// SetupWithManager registers the reconciler.
func (u *Unlimited) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("scale-out-unlimited").
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), behindGates, &handler.EnqueueRequestForObject{}, podGated)).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(u.podsOf), builder.WithPredicates(deleted)).
		WithOptions(inTurn()).
		Complete(cluster.RetryOnConflict(u))
}

// behindGates passes the pods that have a gate when the controller starts.
func behindGates(pod cluster.Outline) bool { return len(pod.Gates()) > 0 }

// podsOf are the pods that a deleted StatefulSet leaves behind gates.
func (u *Unlimited) podsOf(ctx context.Context, set client.Object) (requests []reconcile.Request) {
	pods, err := cluster.PodsOf(ctx, u.Client, set.GetNamespace(), workload.NewTarget(sets.GroupVersion().String(), sets.Kind, set.GetName()))
	if err != nil { // only a cache that is being stopped returns an error
		return nil
	}
	for i := range pods {
		if gated(&pods[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods[i])})
		}
	}
	return requests
}

// SetupWithManager registers the reconciler.
func (p *Partitioner) SetupWithManager(mgr ctrl.Manager) error {
	asks := predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, asked := o.GetAnnotations()[appsv1beta1.AnnotationPartition]
		_, published := o.GetAnnotations()[appsv1beta1.AnnotationExpectedUpdated]
		return asked || published
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("partition").
		For(&appsv1.StatefulSet{}, builder.WithPredicates(asks, setChanged)).
		WithOptions(inTurn()).
		Complete(cluster.RetryOnConflict(p))
}

// setChanged passes the changes of a StatefulSet that a user makes.
var setChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*appsv1.StatefulSet), e.ObjectNew.(*appsv1.StatefulSet)
		return before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
			before.ResourceVersion == after.ResourceVersion // a resync
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// deleted passes StatefulSets that are gone, and those of another UID than before.
var deleted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
}

// podGated passes pods that wait behind the gate when they are first seen, and when they lose
// their StatefulSet.
var podGated = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return gated(e.Object.(*corev1.Pod)) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return gated(after.(*corev1.Pod)) && (before.GetUID() != after.GetUID() || before.GetResourceVersion() == after.GetResourceVersion() ||
			!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// podChanged passes the changes of a pod that take or give back a part of the limit.
var podChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.UID != after.UID || gated(before) != gated(after) || workload.Alive(before) != workload.Alive(after) ||
			workload.Ready(before) != workload.Ready(after) || before.ResourceVersion == after.ResourceVersion
	},
}
