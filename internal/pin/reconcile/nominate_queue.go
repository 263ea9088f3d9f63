package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// Workers of the Nominator, and those that one namespace has at most.
const (
	nominators            = 10
	nominatorsOfNamespace = 8
)

// gateQueue makes the queue of the Nominator. Namespaces take turns, since a tenant can create
// any number of pods with our gate.
var gateQueue = cluster.InTurn(nominatorsOfNamespace, cluster.NamespaceOf)

// gateHandler adds pods to the queue. In a namespace, pods that the webhook has not pinned come last.
func gateHandler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			addGated(q, e.Object, false)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			addGated(q, e.ObjectNew, e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion())
		},
	}
}

func addGated(q workqueue.TypedRateLimitingInterface[ctrl.Request], pod client.Object, resync bool) {
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
	queue, ok := q.(priorityqueue.PriorityQueue[ctrl.Request])
	if !ok || !resync && pinned(pod.(*corev1.Pod)) {
		q.Add(req)
		return
	}
	queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, req)
}

// pinned reports whether a pod looks like one that the webhook has pinned.
func pinned(pod *corev1.Pod) bool {
	_, owned := workload.OwnerOf(pod)
	return owned && pod.Annotations[pin.AnnotationNode] != ""
}
