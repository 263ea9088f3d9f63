package reconcile

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
)

// memory is what the reconciler remembers.
type memory struct {
	mu sync.Mutex
	// spreads tell when pods lost their last scheduling gate: the condition of a pod does not tell.
	// Zero is for a pod that has a gate.
	spreads map[types.NamespacedName]map[types.UID]time.Time
	patches fair.Memory[attempt, string] // why a patch did not apply; "" for one that did
	// sized is when the size from before an event of the target is no longer remembered.
	sized map[types.NamespacedName]time.Time
	// written are the last writes of statuses.
	written map[types.NamespacedName]cluster.Write
}

// mostPatches bounds the memory of patches.
const mostPatches = 4096

// attempt is the application of a subset's patch to a pod of a revision.
type attempt struct {
	spread           types.UID
	generation       int64
	subset, revision string
}

// gates remembers which pods have a gate, and returns when the others lost theirs. A pod that is
// first seen without a gate may have had one, if its spec was changed since its creation: the time
// of such a pod begins when it is first seen, such as after a change of leader.
func (m *memory) gates(spread types.NamespacedName, pods []*member, now time.Time) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[types.UID]time.Time{}
	for _, pod := range pods {
		before, known := m.spreads[spread][pod.UID]
		switch {
		case pod.Spec.NodeName != "":
		case len(pod.Spec.SchedulingGates) > 0:
			next[pod.UID] = time.Time{}
		case known && before.IsZero() || !known && pod.Generation != 1:
			next[pod.UID] = now
		case known:
			next[pod.UID] = before
		}
	}
	if m.spreads == nil {
		m.spreads = map[types.NamespacedName]map[types.UID]time.Time{}
	}
	delete(m.spreads, spread)
	if len(next) > 0 {
		m.spreads[spread] = next
	}
	return maps.Clone(next)
}

// resize remembers until when the size of a spread's target may be the former one.
func (m *memory) resize(spread types.NamespacedName, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sized == nil {
		m.sized = map[types.NamespacedName]time.Time{}
	}
	m.sized[spread] = until
}

// resizing is how long the size of a spread's target may still be the former one; 0 for no longer.
// The queue drops a later event while an earlier one waits, so that each look asks for the next one.
func (m *memory) resizing(spread types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.sized[spread].Sub(now)
	if left <= 0 {
		delete(m.sized, spread)
	}
	return max(0, left)
}

// wrote remembers the version of a spread after the write of its status.
func (m *memory) wrote(spread types.NamespacedName, w cluster.Write) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written == nil {
		m.written = map[types.NamespacedName]cluster.Write{}
	}
	m.written[spread] = w
}

// behind reports whether the cache shows a spread as it was before the last write of its status. No event comes when it
// shows that write.
func (m *memory) behind(spread types.NamespacedName, version string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[spread].Unseen(version, now) > 0
}

// forget removes a spread.
func (m *memory) forget(spread types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.spreads, spread)
	delete(m.sized, spread)
	delete(m.written, spread)
}
