package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
)

type requests = priorityqueue.PriorityQueue[reconcile.Request]

func request(namespace string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: fmt.Sprint(i)}}
}

// queueInTurn is a queue of which one namespace has at most so many workers.
func queueInTurn(t *testing.T, most int) requests {
	t.Helper()
	q := cluster.InTurn(most, cluster.NamespaceOf)("", cluster.BackOff[reconcile.Request](time.Millisecond)).(requests)
	t.Cleanup(q.ShutDown)
	return q
}

// filled waits until a queue has so many requests that may run.
func filled(t *testing.T, q requests, want int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if q.Len() != want {
			return fmt.Errorf("%d requests may run, want %d", q.Len(), want)
		}
		return nil
	})
}

// handle takes the next requests, one after the other.
func handle(q requests, n int) []string {
	var names []string
	for range n {
		req, _ := q.Get()
		names = append(names, req.String())
		q.Done(req)
	}
	return names
}

// A request waits for one of each other namespace, however they were added.
func TestNamespacesTakeTurns(t *testing.T) {
	const flood = 3000
	for name, add := range map[string]func(requests, reconcile.Request){
		"added":       func(q requests, req reconcile.Request) { q.Add(req) },
		"added later": func(q requests, req reconcile.Request) { q.AddAfter(req, time.Millisecond) },
		"tried again": func(q requests, req reconcile.Request) { q.AddRateLimited(req) },
		"of a resync": func(q requests, req reconcile.Request) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, req)
		},
		"added twice": func(q requests, req reconcile.Request) { q.Add(req); q.Add(req) },
		"seen earlier": func(q requests, req reconcile.Request) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, req)
			q.Add(req)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queueInTurn(t, 0)
			for i := range flood {
				add(q, request("tenant", i))
			}
			filled(t, q, flood)
			q.Add(request("shop", 0))
			q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, request("bank", 0))
			seen := map[string]int{}
			for i, name := range handle(q, flood+2) {
				seen[name] = i + 1
			}
			if seen["shop/0"] > 2 || seen["bank/0"] > 3 || len(seen) != flood+2 || q.Len() != 0 {
				t.Errorf("requests of other namespaces came as number %d and %d, of %d; %d are left", seen["shop/0"], seen["bank/0"], len(seen), q.Len())
			}
		})
	}
}

// Slow reconciles of a tenant leave workers to others, and none sleeps without need.
func TestANamespaceHasAFewWorkers(t *testing.T) {
	const most = 4
	q := queueInTurn(t, most)
	for i := range 2 * most {
		q.Add(request("tenant", i))
	}
	var running []reconcile.Request
	for range most {
		req, _ := q.Get()
		running = append(running, req)
	}
	got := make(chan reconcile.Request)
	go func() {
		req, _ := q.Get()
		got <- req
	}()
	filled(t, q, 0)
	q.Add(request("shop", 0))
	if req := <-got; req.Namespace != "shop" {
		t.Errorf("%s runs, although its namespace has %d workers", req, most)
	}
	q.Add(running[0]) // which runs: it must not run twice at a time
	q.Done(running[0])
	filled(t, q, most+1)
	next := handle(q, most+1)
	if next[most] != running[0].String() || q.Len() != 0 {
		t.Errorf("requests %v and %d more, want %s as the last", next, q.Len(), running[0])
	}
}

// In a namespace, changes come before what the first list and resyncs show.
func TestChangesComeBeforeResyncs(t *testing.T) {
	q := queueInTurn(t, 0)
	low := priorityqueue.AddOpts{Priority: new(handler.LowPriority)}
	for i := range 4 {
		q.AddWithOpts(low, request("shop", i))
	}
	q.Add(request("shop", 4))
	q.Add(request("shop", 2))              // changed after it was listed
	q.AddWithOpts(low, request("shop", 4)) // which stays where it is
	for i, want := range []struct {
		request  int
		priority int
	}{{4, 0}, {2, 0}, {0, handler.LowPriority}, {1, handler.LowPriority}, {3, handler.LowPriority}} {
		req, priority, _ := q.GetWithPriority()
		if req != request("shop", want.request) || priority != want.priority {
			t.Errorf("request number %d: %s with priority %d, want %d with %d", i, req, priority, want.request, want.priority)
		}
		q.Done(req)
	}
}
