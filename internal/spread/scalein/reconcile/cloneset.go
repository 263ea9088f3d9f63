package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// cloneSets is the CloneSet of OpenKruise.
var cloneSets = schema.GroupVersionKind{Group: appsv1beta1.GroupVersion.Group, Version: "v1alpha1", Kind: "CloneSet"}

// CloneSets writes the deletion costs of the pods of CloneSets with a spread. OpenKruise's own
// controller balances them over topology domains, so that there is no balanced order. A CloneSet
// is known by its pods and spreads: its kind may not be served.
type CloneSets struct{ *Reconciler }

// SetupWithManager registers the reconciler.
func (c *CloneSets) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("scale-in-clonesets").
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), marked, later(c.ownerOf), podChanged)).
		Watches(&appsv1beta1.WorkloadSpread{}, later(targetOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 2, NewQueue: cluster.InTurn(1, cluster.NamespaceOf),
			RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Complete(cluster.RetryOnConflict(c))
}

// Reconcile writes the costs of one CloneSet.
func (c *CloneSets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	target := workload.Target{Group: cloneSets.Group, Kind: cloneSets.Kind, Name: req.Name}
	pods, err := cluster.PodsOf(ctx, c.Client, req.Namespace, target)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("order pods of CloneSet %s: %w", req, err)
	}
	key := cloneSets.Kind + "/" + req.String()
	if len(pods) == 0 {
		c.memory.forget(key)
		return ctrl.Result{}, nil
	}
	owner, _ := workload.ControllerOf(&pods[0])
	of := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name, UID: owner.UID}}
	of.SetGroupVersionKind(cloneSets)
	result, err := c.order(ctx, &group{
		key: key, namespace: req.Namespace, workload: of, chain: []workload.Owner{owner}, keys: topology{domain: corev1.LabelHostname}, pods: pods,
	})
	if err != nil {
		return result, fmt.Errorf("order pods of CloneSet %s: %w", req, err)
	}
	return result, nil
}

// ownerOf is the CloneSet of a pod, if its pods have an order or had one.
func (c *CloneSets) ownerOf(ctx context.Context, o client.Object) []types.NamespacedName {
	owner, _ := workload.ControllerOf(o)
	if owner.GroupKind() != cloneSets.GroupKind() {
		return nil
	}
	if _, marked := o.GetAnnotations()[appsv1beta1.AnnotationDeletionCost]; !marked {
		found, err := c.spreadsOf(ctx, o.GetNamespace(), []workload.Owner{owner})
		if len(found.objects) == 0 || err != nil {
			return nil
		}
	}
	return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: owner.Name}}
}

// targetOf is the CloneSet of a spread.
func targetOf(_ context.Context, o client.Object) []types.NamespacedName {
	target := workload.TargetOf(o.(*appsv1beta1.WorkloadSpread).Spec.TargetReference)
	if target.GroupKind() != cloneSets.GroupKind() {
		return nil
	}
	return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: target.Name}}
}
