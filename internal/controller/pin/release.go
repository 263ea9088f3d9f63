package pin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// schedulabilityChanged passes what decides whether a node can take a pod.
var schedulabilityChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
	},
}

// ofTurnedNode asks for the PersistentPodStates whose pods may wait for a node, or need
// not any more.
func (r *Recorder) ofTurnedNode(ctx context.Context, _ client.Object) []reconcile.Request {
	var list appsv1beta1.PersistentPodStateList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // see ofTarget
		return nil
	}
	var waiting []appsv1beta1.PersistentPodState
	for i := range list.Items {
		if list.Items[i].Spec.RequiredPersistentTopology != nil {
			waiting = append(waiting, list.Items[i])
		}
	}
	return requests(waiting)
}

// attend tells of pods that wait, and deletes those that are let go. Their owners make
// them anew, and the webhook finds in the status that they may go elsewhere. Nothing is
// lost with them, for they never ran. by is what made them wait.
func (r *Recorder) attend(ctx context.Context, by runtime.Object, waits []pin.Wait) error {
	for _, w := range waits {
		if w.Decision.Verdict == pin.Hold {
			if w.News {
				r.Events.Eventf(w.Pod, by, corev1.EventTypeWarning, pin.ReasonWaiting, "Place", "%s", w)
			}
			continue
		}
		deleted, err := r.Evictor.Delete(ctx, w.Pod)
		if err != nil {
			return fmt.Errorf("release from required place: %w", err)
		}
		if !deleted {
			continue
		}
		r.Metrics.released(w.Decision)
		r.Events.Eventf(by, w.Pod, corev1.EventTypeWarning, pin.ReasonReleased, "Place", "%s", w)
		log.FromContext(ctx).Info("Let go", "pod", w.Pod.Name, "place", w.Place.String(), "reason", w.Decision.Reason)
	}
	return nil
}
