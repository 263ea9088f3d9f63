package rollout

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/limpet-io/limpet/internal/cluster"
)

// memory is what the Opener remembers of StatefulSets with pods behind gates.
type memory struct {
	mu   sync.Mutex
	sets map[ctrl.Request]*remembered
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

// opened remembers that a gate was opened.
func (m *memory) opened(req ctrl.Request, pod *corev1.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	writes := m.of(req).writes
	// Users can let a set have pods that wait for as long as they like.
	maps.DeleteFunc(writes, func(_ types.UID, w cluster.Write) bool { return now.Sub(w.At).Abs() > time.Minute }) // the cache has these
	writes[pod.UID] = cluster.Write{Version: pod.ResourceVersion, At: now}
}

// unseen tells whether a gate was opened and the cache does not show it yet.
func (m *memory) unseen(req ctrl.Request, pod *corev1.Pod, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[req] == nil {
		return false
	}
	w, known := m.sets[req].writes[pod.UID]
	return known && w.Unseen(pod.ResourceVersion, now) > 0
}

// wait remembers how many pods of a set wait, and returns how many did before. Nothing is
// remembered of a set when the last pod of it has gone on.
func (m *memory) wait(req ctrl.Request, n int) (before int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[req] != nil {
		before = m.sets[req].waiting
	}
	if n == 0 {
		delete(m.sets, req)
		return before
	}
	m.of(req).waiting = n
	return before
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
