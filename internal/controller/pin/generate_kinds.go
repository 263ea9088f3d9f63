package pin

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

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// KindGenerator is the Generator for workloads of every other kind.
type KindGenerator struct {
	*Generator
	// Live reads past the cache, which holds no whole objects of these kinds.
	Live    client.Reader
	Watcher *workloads.Watcher
}

// annotated passes changes of a workload's annotations.
var annotated = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return !maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations)
	},
}

// stateChanged passes changes of a PersistentPodState's spec, labels and owners.
var stateChanged = predicate.TypedFuncs[*appsv1beta1.PersistentPodState]{
	UpdateFunc: func(e event.TypedUpdateEvent[*appsv1beta1.PersistentPodState]) bool {
		return specChanged(e.ObjectOld, e.ObjectNew)
	},
}

// kindRequest requests the reconcile of one workload.
type kindRequest struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// SetupWithManager registers the reconciler.
func (g *KindGenerator) SetupWithManager(mgr ctrl.Manager) error {
	c, err := controller.NewTyped("generate-kinds", mgr, controller.TypedOptions[kindRequest]{
		Reconciler: cluster.RetryOnConflict(g), RateLimiter: cluster.BackOff[kindRequest](cluster.RetryLate),
		NewQueue: cluster.InTurn(0, func(req kindRequest) string { return req.Namespace }),
	})
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	g.Watcher.OnServed(func(kind schema.GroupVersionKind) error {
		request := func(_ context.Context, o *metav1.PartialObjectMetadata) []kindRequest {
			return []kindRequest{{kind, client.ObjectKeyFromObject(o)}}
		}
		return c.Watch(source.TypedKind(mgr.GetCache(), workloads.Metadata(kind), handler.TypedEnqueueRequestsFromMapFunc(request), annotated))
	})
	return c.Watch(source.TypedKind(mgr.GetCache(), &appsv1beta1.PersistentPodState{}, handler.TypedEnqueueRequestsFromMapFunc(g.ofState), stateChanged))
}

// Reconcile creates, updates or deletes the PersistentPodState of one workload.
func (g *KindGenerator) Reconcile(ctx context.Context, req kindRequest) (ctrl.Result, error) {
	owner := workloads.Metadata(req.GroupVersionKind)
	if err := g.Live.Get(ctx, req.ObjectKey, owner); err != nil {
		g.warned.Delete(warnedOf{req.GroupKind(), req.ObjectKey})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return g.generate(ctx, owner, req.GroupVersionKind)
}

// ofState requests the workloads that a PersistentPodState concerns, as setsOf does for
// StatefulSets: its target, and every workload of the same name.
func (g *KindGenerator) ofState(_ context.Context, s *appsv1beta1.PersistentPodState) []kindRequest {
	var requests []kindRequest
	target := pin.TargetOf(s)
	for _, kind := range g.Watcher.Registry.Readable() {
		requests = append(requests, kindRequest{kind, client.ObjectKeyFromObject(s)})
		if kind.GroupKind() == (schema.GroupKind{Group: target.Group, Kind: target.Kind}) && target.Name != s.Name {
			requests = append(requests, kindRequest{kind, client.ObjectKey{Namespace: s.Namespace, Name: target.Name}})
		}
	}
	return requests
}
