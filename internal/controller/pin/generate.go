package pin

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/workload"
)

// Generator keeps the PersistentPodStates that StatefulSets ask for by annotation.
type Generator struct {
	Client client.Client
	Events events.EventRecorder

	warned sync.Map // the message of the last warning in force, by warnedOf
}

// warnedOf identifies a workload with a warning.
type warnedOf struct {
	schema.GroupKind
	client.ObjectKey
}

// SetupWithManager registers the reconciler.
func (g *Generator) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("generate").
		For(&appsv1.StatefulSet{}).
		Watches(&appsv1beta1.PersistentPodState{}, handler.EnqueueRequestsFromMapFunc(setsOf), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool { return specChanged(e.ObjectOld, e.ObjectNew) },
		})).
		WithOptions(controller.Options{NewQueue: cluster.InTurn(0, cluster.NamespaceOf), RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Complete(cluster.RetryOnConflict(g))
}

// specChanged tells whether an update changed more of a PersistentPodState than its status.
func specChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!reflect.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// setsOf requests the StatefulSets that a PersistentPodState concerns: its target, and the
// StatefulSet of the same name, whose own object it may be or keep from being made.
func setsOf(_ context.Context, o client.Object) []ctrl.Request {
	state := o.(*appsv1beta1.PersistentPodState)
	requests := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(state)}}
	if target := pin.TargetOf(state); target.Group == appsv1.GroupName && target.Name != state.Name {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: state.Namespace, Name: target.Name}})
	}
	return requests
}

// Reconcile creates, updates or deletes the PersistentPodState of one StatefulSet.
func (g *Generator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var set appsv1.StatefulSet
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	if err := g.Client.Get(ctx, req.NamespacedName, &set); err != nil {
		g.warned.Delete(warnedOf{kind.GroupKind(), req.NamespacedName})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return g.generate(ctx, &set, kind)
}

func (g *Generator) generate(ctx context.Context, owner client.Object, kind schema.GroupVersionKind) (ctrl.Result, error) {
	in, err := g.gather(ctx, owner, kind)
	if err != nil {
		return ctrl.Result{}, err
	}
	generation := pin.Generate(in)
	switch err := g.apply(ctx, generation); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the workload goes with its namespace
		return ctrl.Result{}, nil
	case apierrors.IsInvalid(err): // a retry would not help; a change of the annotations triggers the next reconcile
		generation = pin.Generation{Reason: pin.ReasonBadKeys, Message: err.Error()}
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("generate for %s %s: %w", kind.Kind, client.ObjectKeyFromObject(owner), err)
	}
	g.report(ctx, owner, generation, warnedOf{kind.GroupKind(), client.ObjectKeyFromObject(owner)})
	return ctrl.Result{}, nil
}

func (g *Generator) gather(ctx context.Context, owner client.Object, kind schema.GroupVersionKind) (pin.GenerateInput, error) {
	in := pin.GenerateInput{Workload: owner, Kind: kind}
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
func (g *Generator) report(ctx context.Context, owner client.Object, generation pin.Generation, key warnedOf) {
	kind := corev1.EventTypeNormal
	switch generation.Reason {
	case pin.ReasonForeign, pin.ReasonNoKeys, pin.ReasonBadKeys:
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
