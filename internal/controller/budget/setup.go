package budget

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// SetupWithManager registers the reconciler and what triggers it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.budgetsIn)
	resized := builder.WithPredicates(sizeChanged)
	return ctrl.NewControllerManagedBy(mgr).
		Named("budget").
		For(&policyv1beta1.PodUnavailableBudget{}, builder.WithPredicates(specChanged)).
		Watches(&corev1.Pod{}, r.podHandler(), builder.WithPredicates(podChanged)).
		Watches(&appsv1.Deployment{}, all, resized).
		Watches(&appsv1.StatefulSet{}, all, resized).
		Watches(&appsv1.ReplicaSet{}, all, resized).
		Watches(&batchv1.Job{}, all, resized).
		Watches(&limpetv1alpha1.DisruptionBook{}, handler.EnqueueRequestsFromMapFunc(r.readersOf)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.budgetsOf), builder.WithPredicates(labelChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Complete(cluster.RetryOnConflict[reconcile.Request](r))
}

// sizeChanged passes workloads that want more or fewer pods than before.
var sizeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
			sizeOf(e.ObjectOld) != sizeOf(e.ObjectNew)
	},
}

// sizeOf returns how many pods a workload wants.
func sizeOf(o client.Object) int32 {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *batchv1.Job:
		if ptr.Deref(o.Spec.Suspend, false) {
			return 0
		}
		left := ptr.Deref(o.Spec.Completions, ptr.Deref(o.Spec.Parallelism, 1)) - o.Status.Succeeded
		return min(ptr.Deref(o.Spec.Parallelism, 1), left)
	}
	return 0
}
