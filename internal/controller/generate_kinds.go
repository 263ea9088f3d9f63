package controller

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// KindGenerator does for workloads of every other kind what Generator does for StatefulSets.
type KindGenerator struct {
	*Generator
	// Live reads past the cache, which holds no whole objects of these kinds.
	Live      client.Reader
	Workloads *Workloads
}

// annotated passes changes of what a workload asks for, of which its status is none.
var annotated = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return !maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations)
	},
}

// kindRequest asks for one workload.
type kindRequest struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// SetupWithManager registers the reconciler.
func (g *KindGenerator) SetupWithManager(mgr ctrl.Manager) error {
	c, err := controller.NewTyped("generate-kinds", mgr, controller.TypedOptions[kindRequest]{Reconciler: patiently(g)})
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	g.Workloads.OnServed(func(kind schema.GroupVersionKind) error {
		itself := func(_ context.Context, o *metav1.PartialObjectMetadata) []kindRequest {
			return []kindRequest{{kind, client.ObjectKeyFromObject(o)}}
		}
		return c.Watch(source.TypedKind(mgr.GetCache(), metadataOf(kind), handler.TypedEnqueueRequestsFromMapFunc(itself), annotated))
	})
	return c.Watch(source.TypedKind(mgr.GetCache(), &appsv1beta1.PersistentPodState{}, handler.TypedEnqueueRequestsFromMapFunc(g.ofState)))
}

// Reconcile makes, updates or removes the PersistentPodState of one workload.
func (g *KindGenerator) Reconcile(ctx context.Context, req kindRequest) (ctrl.Result, error) {
	workload := metadataOf(req.GroupVersionKind)
	if err := g.Live.Get(ctx, req.ObjectKey, workload); err != nil {
		g.told.Delete(told{req.GroupKind(), req.ObjectKey})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return g.generate(ctx, workload, req.GroupVersionKind)
}

// ofState asks for the workload that a generated state belongs to.
func (g *KindGenerator) ofState(_ context.Context, s *appsv1beta1.PersistentPodState) []kindRequest {
	ref := metav1.GetControllerOfNoCopy(s)
	if ref == nil {
		return nil
	}
	kind, err := g.Workloads.kindOf(pin.Target{Group: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group, Kind: ref.Kind})
	if err != nil { // a StatefulSet, or a kind that nobody can read now
		return nil
	}
	return []kindRequest{{kind.GroupVersionKind, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}}}
}
