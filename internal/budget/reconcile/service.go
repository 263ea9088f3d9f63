package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
)

// Attendant puts pods with the gate limpet.dev/in-service into service: new ones, once, and those that no request takes
// away after all. It ends the wait of workloads whose pods are out of service.
type Attendant struct {
	Client client.Client
	// Live reads workloads past the cache.
	Live    client.Reader
	Evictor *evict.Evictor
	// Kinds tells the controllers of which workloads can be made to retry.
	Kinds *workloads.Registry
	Clock clock.PassiveClock

	woken fair.Rests[types.UID] // workloads
}

// SetupWithManager registers the reconciler.
func (a *Attendant) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("service").
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), cluster.Outline.ReadinessGated, &handler.EnqueueRequestForObject{}, attended)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4, NewQueue: cluster.InTurn(2, cluster.NamespaceOf), RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate),
		}).
		Complete(cluster.RetryOnConflict[reconcile.Request](a))
}

// attended passes pods with the gate.
var attended = predicate.NewPredicateFuncs(func(o client.Object) bool { return budget.Gated(o.(*corev1.Pod)) })

// Reconcile attends one pod.
func (a *Attendant) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := a.Client.Get(ctx, req.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	d := budget.Attend(&pod, a.Clock.Now())
	var err error
	switch {
	case d.Turn != nil:
		err = a.turn(ctx, &pod, *d.Turn)
	case d.Finish:
		err = a.finish(ctx, &pod)
	}
	return ctrl.Result{RequeueAfter: d.Again}, err
}

// turn writes the condition of a pod that no other client has changed meanwhile.
func (a *Attendant) turn(ctx context.Context, pod *corev1.Pod, c corev1.PodCondition) error {
	patch, err := budget.ServicePatch(pod.UID, pod.ResourceVersion, c)
	if err != nil {
		return err
	}
	err = a.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("put pod %s into service: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// mostWoken is how many workloads are woken in a second. Each is woken once for all its pods.
const mostWoken = 1000

// finish ends the wait of the controller of a workload: it is made to retry. That of a StatefulSet waits until the pod is
// Ready again, so that the pod is deleted here. Budgets may keep the pod. One that the workload wants again is back in service.
func (a *Attendant) finish(ctx context.Context, pod *corev1.Pod) error {
	owner, _ := workload.ControllerOf(pod)
	deletes := owner.GroupKind() == workloads.StatefulSets.GroupKind()
	kind, can := a.Kinds.Nudged(owner.Target)
	if !deletes && (!can || !a.woken.Take(owner.UID, a.Clock.Now(), time.Second, mostWoken)) {
		return nil
	}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}
	switch unwanted, err := a.unwanted(ctx, owner, key, pod); {
	case err != nil:
		return fmt.Errorf("get %s %s: %w", owner.Kind, key, err)
	case !unwanted:
		return a.turn(ctx, pod, *budget.Unasked(a.Clock.Now()))
	case !deletes:
		return workloads.Nudge(ctx, a.Client, kind, key, a.Clock.Now())
	}
	_, err := a.Evictor.Delete(ctx, pod)
	if _, refused := errors.AsType[*evict.RefusedError](err); refused {
		log.FromContext(ctx).V(1).Info("Pod is not deleted yet", "reason", err.Error())
		return nil
	}
	return err
}

// unwanted reports whether a workload wants that a pod goes. Workloads of other kinds are asked by waking them.
func (a *Attendant) unwanted(ctx context.Context, owner workload.Owner, key client.ObjectKey, pod *corev1.Pod) (bool, error) {
	switch owner.GroupKind() {
	case workloads.StatefulSets.GroupKind():
		var set appsv1.StatefulSet
		err := a.Live.Get(ctx, key, &set)
		return err == nil && metav1.IsControlledBy(pod, &set) && budget.Unwanted(&set, pod), client.IgnoreNotFound(err)
	case replicaSets:
		var set appsv1.ReplicaSet
		err := a.Live.Get(ctx, key, &set)
		return err == nil && metav1.IsControlledBy(pod, &set) && budget.Surplus(&set), client.IgnoreNotFound(err)
	}
	return true, nil
}

var replicaSets = appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind()
