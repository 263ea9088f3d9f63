package pin

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/pkg/workload"
)

// ReasonKindForbidden is the reason of the event on a workload of a named kind that the controller
// may not read.
const ReasonKindForbidden = "KindForbidden"

// watchUnreadable has Reconcile tell workloads of named kinds that the controller may not read.
func (a *Adviser) watchUnreadable(mgr ctrl.Manager, c controller.TypedController[kindRequest]) error {
	unreadable := func(pod cluster.Outline) bool {
		owner, ok := pod.Owner()
		return ok && a.Workloads.Forbidden(owner.Target) != ""
	}
	ofPod := func(_ context.Context, o client.Object) []kindRequest {
		owner, ok := workload.ControllerOf(o)
		if !ok || a.Workloads.Forbidden(owner.Target) == "" {
			return nil
		}
		return []kindRequest{requestOf(o.GetNamespace(), owner.Target)}
	}
	ofRights := func(ctx context.Context, _ client.Object) []kindRequest {
		requests := map[kindRequest]bool{}
		err := cluster.EachPod(ctx, mgr.GetCache(), func(pod cluster.Outline) {
			if owner, _ := pod.Owner(); unreadable(pod) {
				requests[requestOf(pod.Namespace(), owner.Target)] = true
			}
		})
		if err != nil { // only a cache that is being stopped returns an error
			return nil
		}
		return slices.Collect(maps.Keys(requests))
	}
	created := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return errors.Join(
		c.Watch(cluster.PodEvents(mgr.GetCache(), unreadable, handler.TypedEnqueueRequestsFromMapFunc(ofPod), created)),
		c.Watch(source.TypedChannel(a.Workloads.RightsChanged(), handler.TypedEnqueueRequestsFromMapFunc(ofRights))),
	)
}

func requestOf(namespace string, t workload.Target) kindRequest {
	return kindRequest{schema.GroupVersionKind{Group: t.Group, Kind: t.Kind}, client.ObjectKey{Namespace: namespace, Name: t.Name}}
}

// tellUnreadable makes an event on a workload that asks for the return of its pods, and which the
// controller may not read. A PersistentPodState, or a retention request of a pod, shows that it
// asks. What is annotated on the workload itself cannot be read.
func (a *Adviser) tellUnreadable(ctx context.Context, req kindRequest) error {
	target := workload.Target{Group: req.Group, Kind: req.Kind, Name: req.Name}
	why := a.Workloads.Forbidden(target)
	pods, err := cluster.PodsOf(ctx, a.Client, req.Namespace, target)
	if err != nil {
		return err
	}
	states, err := cluster.StatesOf(ctx, a.Client, req.Namespace, target)
	if err != nil {
		return err
	}
	asks := len(states) > 0 || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Annotations[reservation.RetainAnnotation] != "" })
	if why == "" || len(pods) == 0 || !asks {
		a.told.Delete(req)
		return nil
	}
	text := shortNote("pods of this workload do not return to their nodes: " + why)
	if before, known := a.told.Swap(req, text); !known || before != text {
		a.Events.Eventf(ownerOf(&pods[0]), nil, corev1.EventTypeWarning, ReasonKindForbidden, "Advise", "%s", text)
	}
	return nil
}
