package pin

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/workload"
)

const (
	// podsPerStep is how many pods of a namespace wait with the same priority. The next ones
	// have a lower priority, so that other namespaces overtake them.
	podsPerStep = 32
	// lowestStep keeps the pods of any namespace before those that nothing pinned.
	lowestStep = 90
)

// gateQueue orders the pods that wait for the Nominator. A tenant can create any number of
// them: its pods come after the pods of namespaces with fewer, and pods that the webhook
// has not pinned come last.
type gateQueue struct {
	mu      sync.Mutex
	waiting map[string]map[string]struct{} // names of pods by namespace
}

// handler adds pods to the queue of a controller.
func (g *gateQueue) handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			g.add(q, e.Object, false)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			g.add(q, e.ObjectNew, e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion())
		},
	}
}

func (g *gateQueue) add(q workqueue.TypedRateLimitingInterface[ctrl.Request], pod client.Object, resync bool) {
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
	priority := -min(g.wait(req)/podsPerStep, lowestStep)
	if resync || !pinned(pod.(*corev1.Pod)) {
		priority += handler.LowPriority
	}
	queue, ok := q.(priorityqueue.PriorityQueue[ctrl.Request])
	if !ok {
		q.Add(req)
		return
	}
	queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, req)
}

// pinned tells whether a pod looks like one that the webhook has pinned.
func pinned(pod *corev1.Pod) bool {
	_, owned := workload.OwnerOf(pod)
	return owned && pod.Annotations[pin.AnnotationNode] != ""
}

// wait notes that a pod waits, and returns how many others of its namespace do.
func (g *gateQueue) wait(req ctrl.Request) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[string]map[string]struct{}{}
	}
	pods := g.waiting[req.Namespace]
	if pods == nil {
		pods = map[string]struct{}{}
		g.waiting[req.Namespace] = pods
	}
	pods[req.Name] = struct{}{}
	return len(pods) - 1
}

// begin notes that a pod has its turn.
func (g *gateQueue) begin(req ctrl.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiting[req.Namespace], req.Name)
	if len(g.waiting[req.Namespace]) == 0 {
		delete(g.waiting, req.Namespace)
	}
}
