package reconcile

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/cluster"
)

// memory is what the reconcilers remember of controllers whose pods have costs, by the key of the
// controller. The last pod that goes takes along what is remembered.
type memory struct {
	mu   sync.Mutex
	sets map[string]*remembered
	// written counts the writes of a namespace in the present second.
	written map[string]int
	second  int64
}

// remembered is what is remembered of one controller.
type remembered struct {
	writes  map[types.UID]ownWrite
	holes   time.Time // since when a layer is free; zero for none
	foreign []string  // the pods that were told
}

// ownWrite is the last cost that was written to a pod.
type ownWrite struct {
	cluster.Write
	cost string
}

// of returns what is remembered of a controller; the lock is held.
func (m *memory) of(set string) *remembered {
	if m.sets == nil {
		m.sets = map[string]*remembered{}
	}
	if m.sets[set] == nil {
		m.sets[set] = &remembered{writes: map[types.UID]ownWrite{}}
	}
	return m.sets[set]
}

// forget removes a controller.
func (m *memory) forget(set string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, set)
}

// wrote remembers a write.
func (m *memory) wrote(set string, pod *corev1.Pod, cost string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(set).writes[pod.UID] = ownWrite{cluster.Write{Version: pod.ResourceVersion, At: now}, cost}
}

// unseen returns the cost that was written to a pod, if the cache does not show it yet.
func (m *memory) unseen(set string, pod *corev1.Pod, now time.Time) (cost string, unseen bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[set] == nil {
		return "", false
	}
	w, known := m.sets[set].writes[pod.UID]
	if known && w.Unseen(pod.ResourceVersion, now) == 0 {
		delete(m.sets[set].writes, pod.UID)
		return "", false
	}
	return w.cost, known
}

// keep forgets the writes to pods that are gone.
func (m *memory) keep(set string, pods map[string]*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[set] == nil || len(m.sets[set].writes) == 0 {
		return
	}
	kept := map[types.UID]ownWrite{}
	for _, pod := range pods {
		if w, known := m.sets[set].writes[pod.UID]; known {
			kept[pod.UID] = w
		}
	}
	m.sets[set].writes = kept
}

// hole returns for how long a layer of a controller has been free.
func (m *memory) hole(set string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[set] == nil || m.sets[set].holes.IsZero() {
		return 0
	}
	return now.Sub(m.sets[set].holes)
}

// setHole remembers whether a layer is free.
func (m *memory) setHole(set string, free bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of(set)
	switch {
	case !free:
		of.holes = time.Time{}
	case of.holes.IsZero():
		of.holes = now
	}
}

// setForeign remembers the pods with costs of others, and reports whether there are new ones.
func (m *memory) setForeign(set string, names []string) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of(set)
	for _, name := range names {
		_, known := slices.BinarySearch(of.foreign, name)
		more = more || !known
	}
	of.foreign = names
	return more
}

// foreign counts the pods with costs of others.
func (m *memory) foreign() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, set := range m.sets {
		n += len(set.foreign)
	}
	return n
}

// grant reports whether a namespace may have one more write in this second.
func (m *memory) grant(namespace string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if second := now.Unix(); second != m.second || m.written == nil {
		m.second, m.written = second, map[string]int{}
	}
	if m.written[namespace] >= writesPerSecond {
		return false
	}
	m.written[namespace]++
	return true
}
