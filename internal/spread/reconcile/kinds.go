package reconcile

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// builtIn are the kinds that have typed watches.
var builtIn = []schema.GroupKind{
	replicaSets, jobs, {Group: replicaSets.Group, Kind: "Deployment"}, {Group: replicaSets.Group, Kind: "StatefulSet"},
}

// resized passes changes of a workload's spec or of its controller.
var resized = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		before, _ := workload.ControllerOf(e.ObjectOld)
		after, _ := workload.ControllerOf(e.ObjectNew)
		return e.ObjectOld.Generation != e.ObjectNew.Generation || before != after
	},
}

// watchKinds watches the metadata of each kind that is named for spreads, while it is served.
func (r *Reconciler) watchKinds(objects cache.Cache, c controller.Controller) {
	r.Kinds.OnSpreadServed(func(kind schema.GroupVersionKind) error {
		if slices.Contains(builtIn, kind.GroupKind()) {
			return nil
		}
		trigger := func(ctx context.Context, q queue, o *metav1.PartialObjectMetadata) {
			spreads := r.spreadsFor(ctx, o.Namespace, workload.Target{Group: kind.Group, Kind: kind.Kind, Name: o.Name})
			for _, ws := range append(spreads, r.spreadsAbove(ctx, o.Namespace, kind.GroupKind())...) {
				key := client.ObjectKeyFromObject(&ws)
				r.memory.resize(key, r.Clock.Now().Add(forgotten))
				q.AddAfter(reconcile.Request{NamespacedName: key}, forgotten)
			}
		}
		return c.Watch(source.TypedKind(objects, workloads.Metadata(kind), metadataHandler{
			CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
				trigger(ctx, q, e.Object)
			},
			UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
				trigger(ctx, q, e.ObjectNew)
			},
			DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], q queue) {
				trigger(ctx, q, e.Object)
			},
		}, resized))
	})
}

type metadataHandler = handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]

// forgotten is when the size from before an event is no longer remembered.
const forgotten = workloads.SizeMemory + gathering

// followed reports whether a watch tells when the size of a spread's target changes.
func (r *Reconciler) followed(ws *appsv1beta1.WorkloadSpread) bool {
	kind := workload.TargetOf(ws.Spec.TargetReference).GroupKind()
	if slices.Contains(builtIn, kind) {
		return true
	}
	_, served := r.Kinds.Registry.ServedForSpreads(kind)
	return served
}

// spreadsAbove are the spreads of a namespace whose target may be above an object of a kind.
func (r *Reconciler) spreadsAbove(ctx context.Context, namespace string, kind schema.GroupKind) []appsv1beta1.WorkloadSpread {
	above := r.Kinds.Registry.SpreadKinds().Above(kind)
	if len(above) == 0 {
		return nil
	}
	var list appsv1beta1.WorkloadSpreadList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil { // see spreadsOfPod
		return nil
	}
	return slices.DeleteFunc(list.Items, func(ws appsv1beta1.WorkloadSpread) bool {
		return !slices.Contains(above, workload.TargetOf(ws.Spec.TargetReference).GroupKind())
	})
}

// allSpreads are the spreads of further kinds.
func (r *Reconciler) allSpreads(ctx context.Context, _ client.Object) []appsv1beta1.WorkloadSpread {
	var list appsv1beta1.WorkloadSpreadList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // see spreadsOfPod
		return nil
	}
	return slices.DeleteFunc(list.Items, func(ws appsv1beta1.WorkloadSpread) bool {
		return slices.Contains(builtIn, workload.TargetOf(ws.Spec.TargetReference).GroupKind())
	})
}
