package reconcile

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// grace is how long the StatefulSet of a new pod may be missing in the cache, which may show the
// pod first.
const grace = 5 * time.Second

// Unlimited opens the gate of pods that no StatefulSet controls. Any user can write the gate into a
// template, and a StatefulSet can be deleted without its pods.
type Unlimited struct {
	Client  client.Client
	Clock   clock.PassiveClock
	Metrics *Metrics
}

// Reconcile opens the gate of one pod.
func (u *Unlimited) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := u.Client.Get(ctx, req.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !gated(&pod) || pod.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	owner, _ := workload.ControllerOf(&pod)
	if owner.GroupKind() == sets.GroupKind() {
		var set appsv1.StatefulSet
		err := u.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}, &set, client.UnsafeDisableDeepCopy)
		if err == nil && set.UID == owner.UID { // the Opener opens it
			return ctrl.Result{}, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		if wait := grace - u.Clock.Now().Sub(pod.CreationTimestamp.Time); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if err := openGate(ctx, u.Client, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	u.Metrics.opened(false)
	return ctrl.Result{}, nil
}
