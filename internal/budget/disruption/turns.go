package disruption

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Bounds of the decisions that are made at a time, in pods and workloads that are looked at: each counts once
// for each budget that covers the pod of the request. One takes some 70 bytes of memory, and a microsecond.
const (
	countedInNamespace = 200_000
	countedInTotal     = 600_000
)

// turns bounds what the decisions of one namespace, and of all, count at a time: a tenant may
// have thousands of pods that run nowhere, 32 budgets of each, and many requests. Decisions wait
// in the order in which they came. Decisions that count little are not bounded by this.
type turns struct {
	mu      sync.Mutex
	total   int
	counted map[string]int // by namespace
	waiting []*turn        // the oldest first
}

// turn is one decision that waits for others to end.
type turn struct {
	namespace string
	pods      int
	begins    chan struct{}
}

func newTurns() *turns { return &turns{counted: map[string]int{}} }

// enter waits until the decisions that are being made leave room. A decision that counts more
// than a namespace may is made alone in its namespace. leave must be called at its end.
func (t *turns) enter(ctx context.Context, namespace string, pods int) (leave func(), err error) {
	own := t.ask(namespace, pods)
	select {
	case <-own.begins:
		return func() { t.end(own) }, nil
	case <-ctx.Done():
		t.end(own)
		return nil, fmt.Errorf("wait for other decisions in namespace %s: %w", namespace, ctx.Err())
	}
}

// ask adds a decision to those that wait. It may begin at once.
func (t *turns) ask(namespace string, pods int) *turn {
	own := &turn{namespace, min(pods, countedInNamespace), make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, own)
	t.begin()
	return own
}

// begin lets decisions begin for which there is room. Behind one that waits for room in total no
// other begins; behind one that waits for its namespace, those of other namespaces do.
func (t *turns) begin() {
	full := map[string]bool{}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool {
		if full[""] || full[w.namespace] {
			return false
		}
		if t.counted[w.namespace]+w.pods > countedInNamespace {
			full[w.namespace] = true
			return false
		}
		if t.total+w.pods > countedInTotal {
			full[""] = true // no namespace has this name
			return false
		}
		t.total += w.pods
		t.counted[w.namespace] += w.pods
		close(w.begins)
		return true
	})
}

// end ends a decision, or its waiting.
func (t *turns) end(of *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, of); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.total -= of.pods
		if t.counted[of.namespace] -= of.pods; t.counted[of.namespace] == 0 {
			delete(t.counted, of.namespace)
		}
	}
	t.begin() // also behind one that waits no longer
}
