package reconcile

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// SetupWithManager registers the reconciler and what triggers it.
func (r *Recorder) SetupWithManager(mgr ctrl.Manager) error {
	by := triggers{r.Client}
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("record").
		For(&appsv1beta1.PersistentPodState{}).
		Watches(&appsv1beta1.PersistentPodState{}, handler.EnqueueRequestsFromMapFunc(by.rival), builder.WithPredicates(createdOrDeleted)).
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), unbound, handler.EnqueueRequestsFromMapFunc(by.pod), recordChanged)).
		Watches(&limpetv1alpha1.IPReservation{}, handler.EnqueueRequestsFromMapFunc(r.givenUp), builder.WithPredicates(becameGivenUp)).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(by.statefulSet)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(by.labels), builder.WithPredicates(nodeRelabelled)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(by.schedulability), builder.WithPredicates(schedulabilityChanged)).
		WatchesRawSource(source.Channel(r.Watcher.Registry.Changed(), handler.EnqueueRequestsFromMapFunc(by.any))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 6, NewQueue: cluster.InTurn(4, cluster.NamespaceOf),
			RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Build(cluster.RetryOnConflict[reconcile.Request](r))
	r.Watcher.OnServed(func(kind schema.GroupVersionKind) error {
		served := func(ctx context.Context, o *metav1.PartialObjectMetadata) []reconcile.Request {
			return by.target(ctx, o.Namespace, workload.Target{Group: kind.Group, Kind: kind.Kind, Name: o.Name})
		}
		return c.Watch(source.Kind(mgr.GetCache(), workloads.Metadata(kind), handler.TypedEnqueueRequestsFromMapFunc(served)))
	})
	return err
}

// triggers finds the PersistentPodStates that an event concerns.
type triggers struct{ client client.Client }

// pod finds the states of a pod's owner, and those of a StatefulSet whose pods would have its name:
// it may take their addresses. A waiting pod whose owner has none triggers the
// state that gave it its place, which may be gone.
func (t triggers) pod(ctx context.Context, o client.Object) []reconcile.Request {
	pod := o.(*corev1.Pod)
	var found []reconcile.Request
	for _, target := range pin.NamedLike(pod) {
		found = append(found, t.target(ctx, pod.Namespace, target)...)
	}
	owner, ok := workload.OwnerOf(pod)
	if !ok {
		return found
	}
	own := t.target(ctx, pod.Namespace, owner)
	if by := pin.PinnedBy(pod); by != "" && len(own) == 0 {
		own = append(own, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: by}})
	}
	return append(found, own...)
}

// rival finds all states with the same target: another one may be in force now.
func (t triggers) rival(ctx context.Context, o client.Object) []reconcile.Request {
	return t.target(ctx, o.GetNamespace(), pin.TargetOf(o.(*appsv1beta1.PersistentPodState)))
}

func (t triggers) statefulSet(ctx context.Context, o client.Object) []reconcile.Request {
	return t.target(ctx, o.GetNamespace(), workload.Target{Group: appsv1.GroupName, Kind: workloads.StatefulSets.Kind, Name: o.GetName()})
}

func (t triggers) target(ctx context.Context, namespace string, target workload.Target) []reconcile.Request {
	states, err := cluster.StatesOf(ctx, t.client, namespace, target)
	if err != nil { // only a cache that is being stopped returns an error
		return nil
	}
	return requests(states)
}

// any finds every state: kinds of workload change seldom.
func (t triggers) any(ctx context.Context, _ client.Object) []reconcile.Request {
	var list appsv1beta1.PersistentPodStateList
	if err := t.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // see target
		return nil
	}
	return requests(list.Items)
}

// labels finds the states that the labels of a node concern: of its pods, those whose records lack
// labels of the node, and those whose pods wait for a node.
func (t triggers) labels(ctx context.Context, o client.Object) []reconcile.Request {
	var incomplete appsv1beta1.PersistentPodStateList
	if err := t.client.List(ctx, &incomplete, client.MatchingFields{indexIncomplete: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // see target
	}
	pods, err := cluster.PodsOn(ctx, t.client, o.GetName())
	if err != nil { // see target
		return nil
	}
	return slices.Concat(requests(incomplete.Items), t.waiting(ctx), t.ofPods(ctx, pods))
}

// schedulability finds the states whose pods wait for a node, or for the start that the node has
// not reported, and those whose pods may return to it.
func (t triggers) schedulability(ctx context.Context, o client.Object) []reconcile.Request {
	var homes appsv1beta1.PersistentPodStateList
	if err := t.client.List(ctx, &homes, client.MatchingFields{indexHome: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // see target
	}
	return slices.Concat(requests(homes.Items), t.waiting(ctx), t.unstarted(ctx, o.GetName()))
}

// waiting finds the states of pods for which the scheduler found no node.
func (t triggers) waiting(ctx context.Context) []reconcile.Request {
	var pods corev1.PodList
	if err := t.client.List(ctx, &pods, client.MatchingFields{indexWaiting: theKey}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // see target
	}
	return t.ofPods(ctx, pods.Items)
}

// ofPods finds the states of some pods, those of each workload once.
func (t triggers) ofPods(ctx context.Context, pods []corev1.Pod) (found []reconcile.Request) {
	seen := map[string]bool{}
	for i := range pods {
		owner, ok := workload.OwnerOf(&pods[i])
		key := pods[i].Namespace + "/" + owner.String() + "/" + pin.PinnedBy(&pods[i])
		if !ok || owner.Unstable() || seen[key] {
			continue
		}
		seen[key] = true
		found = append(found, t.pod(ctx, &pods[i])...)
	}
	return found
}

// unstarted finds the states of pods that are bound to a node and not started there.
func (t triggers) unstarted(ctx context.Context, node string) (found []reconcile.Request) {
	pods, err := cluster.PodsOn(ctx, t.client, node)
	if err != nil { // see target
		return nil
	}
	for i := range pods {
		if pin.Unstarted(&pods[i]) {
			found = append(found, t.pod(ctx, &pods[i])...)
		}
	}
	return found
}

func requests(states []appsv1beta1.PersistentPodState) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(states))
	for i := range states {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&states[i])})
	}
	return out
}
