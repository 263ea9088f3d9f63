package cluster

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// InTurn makes the queue of a controller whose namespaces take turns: however many requests of
// one namespace wait, a request of another namespace waits for one of them. A namespace has at
// most so many workers at a time, so that its slow reconciles leave some to others; 0 for no bound.
//
// In a namespace, requests of low priority come last: those of the first list and of resyncs.
func InTurn[R comparable](most int, namespace func(R) string) func(string, workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
	return func(name string, limiter workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] {
		order := &turns[R]{most: most, namespace: namespace, lines: map[string]*line[R]{}, low: map[R]bool{}}
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
	most      int
	namespace func(R) string

	mu    sync.Mutex
	lines map[string]*line[R] // by namespace; no empty ones
	next  []string            // namespaces with waiting requests, the next one first
	ready int                 // requests that may run now
	// low are requests that were added with low priority only since their last turn.
	low map[R]bool
}

// line is the requests of a namespace.
type line[R comparable] struct {
	high, low []R
	waiting   map[R]bool // whether with low priority; entries of low that are not here had their turn
	running   map[R]bool // whether with low priority
}

// rank notes the priority of a request that is about to be added. The highest one counts.
func (t *turns[R]) rank(req R, low bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, added := t.low[req]; !added || known {
		t.low[req] = low
	}
}

// Push adds a request to the line of its namespace.
func (t *turns[R]) Push(req R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[t.namespace(req)]
	if l == nil {
		l = &line[R]{waiting: map[R]bool{}, running: map[R]bool{}}
		t.lines[t.namespace(req)] = l
	}
	if len(l.waiting) == 0 {
		t.next = append(t.next, t.namespace(req))
	}
	if !t.full(l) {
		t.ready++
	}
	l.add(req, t.low[req])
}

// Touch raises the priority of a request that waits.
func (t *turns[R]) Touch(req R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[t.namespace(req)]; l != nil && l.waiting[req] && !t.low[req] {
		l.add(req, false)
	}
}

// Len is the number of requests that may run now.
func (t *turns[R]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ready
}

// Pop takes the first request of the namespace whose turn it is.
func (t *turns[R]) Pop() R {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, namespace := range t.next {
		l := t.lines[namespace]
		if t.full(l) {
			continue
		}
		req := l.take()
		delete(t.low, req)
		if t.ready--; t.full(l) {
			t.ready -= len(l.waiting)
		}
		t.next = slices.Delete(t.next, i, i+1)
		if len(l.waiting) > 0 {
			t.next = append(t.next, namespace)
		}
		return req
	}
	return *new(R) // the queue asks only when Len is not 0
}

func (t *turns[R]) full(l *line[R]) bool { return t.most > 0 && len(l.running) >= t.most }

func (t *turns[R]) runsLow(req R) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[t.namespace(req)]
	return l != nil && l.running[req]
}

func (t *turns[R]) done(req R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[t.namespace(req)]
	if l == nil {
		return
	}
	full := t.full(l)
	if delete(l.running, req); full && !t.full(l) {
		t.ready += len(l.waiting)
	}
	if len(l.running) == 0 && len(l.waiting) == 0 {
		delete(t.lines, t.namespace(req))
	}
}

func (l *line[R]) add(req R, low bool) {
	l.waiting[req] = low
	if low {
		l.low = append(l.low, req)
	} else {
		l.high = append(l.high, req)
	}
}

// take returns the next request that waits. One must wait.
func (l *line[R]) take() R {
	for {
		from, low := &l.high, len(l.high) == 0
		if low {
			from = &l.low
		}
		req := (*from)[0]
		*from = (*from)[1:]
		if isLow, waits := l.waiting[req]; waits && isLow == low { // otherwise it was raised, and had its turn
			delete(l.waiting, req)
			l.running[req] = low
			return req
		}
	}
}
