package cluster

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// InTurn makes the queue of a controller whose namespaces take turns: however many requests of
// one namespace wait, a request of another namespace waits for one of them. A namespace has at
// most so many workers at a time, so that its slow reconciles leave some to others; 0 for no bound.
//
// In a namespace, requests of low priority come last: those of the first list and of resyncs.
func InTurn[R comparable](most int, namespace func(R) string) func(string, workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
	return func(name string, limiter workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
		order := &turns[R]{
			namespace: namespace, order: fair.Turns[string, R]{Each: most},
			waiting: map[R]*fair.Item[string, R]{}, running: map[R]*fair.Item[string, R]{}, low: map[R]bool{},
		}
		queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[R]{Name: name, Queue: order})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[R]{Name: name, Queue: queue})
		return &queueInTurn[R]{
			workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
				workqueue.TypedRateLimitingQueueConfig[R]{Name: name, DelayingQueue: delaying}),
			order,
		}
	}
}

// NamespaceOf is the namespace of a request, for InTurn.
func NamespaceOf(req reconcile.Request) string { return req.Namespace }

// queueInTurn is a work queue with turns. It has the methods of a priority queue, by which the
// library tells requests of low priority.
type queueInTurn[R comparable] struct {
	workqueue.TypedRateLimitingInterface[R]
	order *turns[R]
}

// AddWithOpts adds requests at once or later.
func (q *queueInTurn[R]) AddWithOpts(o priorityqueue.AddOpts, requests ...R) {
	for _, req := range requests {
		q.order.rank(req, o.Priority != nil && *o.Priority < 0)
		switch {
		case o.RateLimited:
			q.AddRateLimited(req)
		case o.After > 0:
			q.AddAfter(req, o.After)
		default:
			q.TypedRateLimitingInterface.Add(req)
		}
	}
}

// Add adds a request of ordinary priority.
func (q *queueInTurn[R]) Add(req R) { q.AddWithOpts(priorityqueue.AddOpts{}, req) }

// GetWithPriority waits for the next request, and tells its priority.
func (q *queueInTurn[R]) GetWithPriority() (req R, priority int, shutdown bool) {
	req, shutdown = q.Get()
	if !shutdown && q.order.runsLow(req) {
		priority = handler.LowPriority
	}
	return req, priority, shutdown
}

// Done ends a request. The worker that ends it asks for another one next, so that no worker
// sleeps while the namespace has a request that may run now.
func (q *queueInTurn[R]) Done(req R) {
	q.order.done(req)
	q.TypedRateLimitingInterface.Done(req)
}

// turns is the order of the requests of a queue.
type turns[R comparable] struct {
	namespace func(R) string

	mu               sync.Mutex
	order            fair.Turns[string, R]
	waiting, running map[R]*fair.Item[string, R]
	// low are requests that were added with low priority only since their last turn.
	low map[R]bool
}

// rank notes the priority of a request that is about to be added. The highest one counts.
func (t *turns[R]) rank(req R, low bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, added := t.low[req]; !added || known {
		t.low[req] = low
	}
}

// Push adds a request to those of its namespace.
func (t *turns[R]) Push(req R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[req] = t.order.Push(t.namespace(req), req, 1, t.low[req])
}

// Touch raises the priority of a request that waits.
func (t *turns[R]) Touch(req R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.waiting[req]; i != nil && !t.low[req] {
		t.order.Raise(i)
	}
}

// Len is the number of requests that may run now.
func (t *turns[R]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.order.Ready()
}

// Pop takes the first request of the namespace whose turn it is. The queue asks only when Len is not 0.
func (t *turns[R]) Pop() R {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.order.Next()
	t.order.Begin(i)
	t.running[i.Value] = i
	delete(t.waiting, i.Value)
	delete(t.low, i.Value)
	return i.Value
}

func (t *turns[R]) runsLow(req R) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running[req] != nil && t.running[req].Low
}

func (t *turns[R]) done(req R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.running[req]; i != nil {
		t.order.End(i)
		delete(t.running, req)
	}
}
