package reconcile

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/limpet-io/limpet/internal/platform/cluster"
)

// memory is what the Opener remembers of StatefulSets with pods behind gates.
type memory struct {
	mu    sync.Mutex
	sets  map[ctrl.Request]*remembered
	swept time.Time
}

// remembered is what is remembered of one StatefulSet.
type remembered struct {
	waiting int
	writes  map[types.UID]cluster.Write // the gates that were opened, by the pod
}

// of returns what is remembered of a set; the lock is held.
func (m *memory) of(req ctrl.Request) *remembered {
	if m.sets == nil {
		m.sets = map[ctrl.Request]*remembered{}
	}
	if m.sets[req] == nil {
		m.sets[req] = &remembered{writes: map[types.UID]cluster.Write{}}
	}
	return m.sets[req]
}

// lasts is how long a gate that was opened is remembered: the cache has it by then.
const lasts = time.Minute

// opened remembers that a gate was opened.
func (m *memory) opened(req ctrl.Request, pod *corev1.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	m.of(req).writes[pod.UID] = cluster.Write{Version: pod.ResourceVersion, At: now}
}

// sweep forgets old writes, and sets of which nothing is left. Users can let a set have pods that
// wait for as long as they like. All sets are swept once in a second at most.
func (m *memory) sweep(now time.Time) {
	if now.Sub(m.swept).Abs() < time.Second {
		return
	}
	m.swept = now
	for req, set := range m.sets {
		maps.DeleteFunc(set.writes, func(_ types.UID, w cluster.Write) bool { return now.Sub(w.At).Abs() > lasts })
		if set.waiting == 0 && len(set.writes) == 0 {
			delete(m.sets, req)
		}
	}
}

// unseen reports whether a gate was opened and the cache does not show it yet.
func (m *memory) unseen(req ctrl.Request, pod *corev1.Pod, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[req] == nil {
		return false
	}
	w, known := m.sets[req].writes[pod.UID]
	return known && w.Unseen(pod.ResourceVersion, now) > 0
}

// wait remembers how many pods of a set wait, and returns how many did before. The gates that were
// opened stay known when the last pod has gone on: the cache may still show them closed.
func (m *memory) wait(req ctrl.Request, n int) (before int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[req] == nil && n == 0 {
		return 0
	}
	set := m.of(req)
	before, set.waiting = set.waiting, n
	if n == 0 && len(set.writes) == 0 {
		delete(m.sets, req)
	}
	return before
}

// forget removes a set.
func (m *memory) forget(req ctrl.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, req)
}

// waiting counts the pods of all sets that wait.
func (m *memory) waiting() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, set := range m.sets {
		n += set.waiting
	}
	return n
}
