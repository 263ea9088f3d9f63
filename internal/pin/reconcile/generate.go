package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Generator keeps the PersistentPodStates that workloads ask for by annotation.
type Generator struct {
	Client client.Client
	// Live reads workloads of further kinds, of which the cache holds no whole objects.
	Live    client.Reader
	Watcher *workloads.Watcher
	Events  events.EventRecorder

	warned sync.Map // the message of the last warning in force, by kindRequest
}

// kindRequest requests the reconcile of one workload.
type kindRequest struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// SetupWithManager registers the reconciler.
func (g *Generator) SetupWithManager(mgr ctrl.Manager) error {
	c, err := controller.NewTyped("generate", mgr, controller.TypedOptions[kindRequest]{
		Reconciler: cluster.RetryOnConflict(g), RateLimiter: cluster.BackOff[kindRequest](cluster.RetryLate), MaxConcurrentReconciles: 2,
		NewQueue: cluster.InTurn(1, func(req kindRequest) string { return req.Namespace }),
	})
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	watch := func(object client.Object, requests handler.TypedMapFunc[client.Object, kindRequest], changed func(before, after client.Object) bool) error {
		return c.Watch(source.TypedKind(mgr.GetCache(), object, handler.TypedEnqueueRequestsFromMapFunc(requests), predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) },
		}))
	}
	of := func(kind schema.GroupVersionKind) handler.TypedMapFunc[client.Object, kindRequest] {
		return func(_ context.Context, o client.Object) []kindRequest {
			return []kindRequest{{kind, client.ObjectKeyFromObject(o)}}
		}
	}
	g.Watcher.OnServed(func(kind schema.GroupVersionKind) error { return watch(workloads.Metadata(kind), of(kind), annotated) })
	unkept := handler.TypedEnqueueRequestsFromMapFunc(g.ofUnkept)
	return errors.Join(
		watch(&appsv1.StatefulSet{}, of(workloads.StatefulSets), annotated),
		watch(&appsv1beta1.PersistentPodState{}, g.ofState, specChanged),
		watch(&corev1.Namespace{}, g.inNamespace, keepChanged),
		c.Watch(cluster.PodEvents(mgr.GetCache(), cluster.NoneAtStart, unkept, created)),
	)
}

// created passes new objects.
var created = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// annotated reports whether an update changed the annotations of a workload, or may have changed those of its pods.
func annotated(before, after client.Object) bool {
	was, ok := before.(*appsv1.StatefulSet)
	is, also := after.(*appsv1.StatefulSet)
	if ok && also && !maps.Equal(was.Spec.Template.Annotations, is.Spec.Template.Annotations) {
		return true
	}
	return before.GetUID() != after.GetUID() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!ok && before.GetGeneration() != after.GetGeneration()
}

// specChanged reports whether an update changed more of a PersistentPodState than its status.
func specChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// ofState requests the workloads that a PersistentPodState concerns: its target, and every workload
// of the same name, whose own object it may be or keep from being made.
func (g *Generator) ofState(_ context.Context, o client.Object) []kindRequest {
	var requests []kindRequest
	target := pin.TargetOf(o.(*appsv1beta1.PersistentPodState))
	for _, kind := range append(g.Watcher.Registry.Readable(), workloads.StatefulSets) {
		requests = append(requests, kindRequest{kind, client.ObjectKeyFromObject(o)})
		if kind.GroupKind() == target.GroupKind() && target.Name != o.GetName() {
			requests = append(requests, kindRequest{kind, client.ObjectKey{Namespace: o.GetNamespace(), Name: target.Name}})
		}
	}
	return requests
}

// Reconcile creates, updates or deletes the PersistentPodState of one workload.
func (g *Generator) Reconcile(ctx context.Context, req kindRequest) (ctrl.Result, error) {
	owner, reader := client.Object(workloads.Short(req.GroupVersionKind)), g.Live
	if req.GroupVersionKind == workloads.StatefulSets {
		owner, reader = &appsv1.StatefulSet{}, g.Client
	}
	if err := reader.Get(ctx, req.ObjectKey, owner); err != nil {
		g.warned.Delete(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	in, err := g.gather(ctx, owner, req.GroupVersionKind)
	if err != nil {
		return ctrl.Result{}, err
	}
	refused, more, givenErr := g.give(ctx, in)
	generation := pin.Generate(in)
	switch err := g.apply(ctx, generation); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the workload goes with its namespace
		return ctrl.Result{}, nil
	case apierrors.IsInvalid(err): // a retry would not help; a change of the annotations triggers the next reconcile
		generation = pin.Generation{Reason: pin.ReasonBadKeys, Message: err.Error()}
	case err != nil:
		return ctrl.Result{}, errors.Join(fmt.Errorf("generate for %s %s: %w", req.Kind, req.ObjectKey, err), givenErr)
	}
	if refused != "" {
		generation = pin.Generation{Reason: pin.ReasonKeepRefused, Message: refused}
	}
	g.report(ctx, owner, generation, req)
	if more {
		return ctrl.Result{RequeueAfter: time.Millisecond}, givenErr
	}
	return ctrl.Result{}, givenErr
}

func (g *Generator) gather(ctx context.Context, owner client.Object, kind schema.GroupVersionKind) (pin.GenerateInput, error) {
	in := pin.GenerateInput{Workload: owner, Kind: kind, Template: templateOf(owner)}
	var err error
	if in.Namespace, err = namespaceAnnotations(ctx, g.Client, owner.GetNamespace()); err != nil {
		return in, err
	}
	target := workload.Target{Group: kind.Group, Kind: kind.Kind, Name: owner.GetName()}
	states, err := cluster.StatesOf(ctx, g.Client, owner.GetNamespace(), target)
	if err != nil {
		return in, err
	}
	for i := range states {
		in.Existing = append(in.Existing, *states[i].DeepCopy())
	}
	var named appsv1beta1.PersistentPodState
	switch err := g.Client.Get(ctx, client.ObjectKeyFromObject(owner), &named); {
	case apierrors.IsNotFound(err):
		return in, nil
	case err != nil:
		return in, fmt.Errorf("get PersistentPodState %s: %w", owner.GetName(), err)
	}
	if pin.TargetOf(&named) != target { // otherwise the states contain it already
		in.Existing = append(in.Existing, named)
	}
	return in, nil
}

func (g *Generator) apply(ctx context.Context, generation pin.Generation) error {
	switch o := generation.Object; generation.Action {
	case pin.Create:
		return g.Client.Create(ctx, o)
	case pin.Update:
		// The update has the resource version that was read. The cache will show an object
		// that is gone, which triggers its creation.
		return client.IgnoreNotFound(g.Client.Update(ctx, o))
	case pin.Delete:
		return client.IgnoreNotFound(g.Client.Delete(ctx, o, client.Preconditions{UID: &o.UID}))
	case pin.Keep:
	}
	return nil
}

// report makes an event of what was done, or could not be done. A warning is not repeated
// while it is in force: a workload changes its status all the time.
func (g *Generator) report(ctx context.Context, owner client.Object, generation pin.Generation, key kindRequest) {
	kind := corev1.EventTypeNormal
	switch generation.Reason {
	case pin.ReasonForeign, pin.ReasonNoKeys, pin.ReasonBadKeys, pin.ReasonBadKeep, pin.ReasonKeepRefused:
		kind = corev1.EventTypeWarning
		if before, known := g.warned.Swap(key, generation.Message); known && before == generation.Message {
			return
		}
	case pin.ReasonNotAsked, pin.ReasonUpToDate:
		g.warned.Delete(key)
		return
	default:
		g.warned.Delete(key)
		log.FromContext(ctx).Info("Generated", "reason", generation.Reason)
	}
	g.Events.Eventf(owner, nil, kind, generation.Reason, "GeneratePersistentPodState", "%s", generation.Message)
}
