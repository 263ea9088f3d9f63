package fair

import "sync"

// Memory remembers values of namespaces. Where it has too many, the fullest namespace forgets its oldest one, so
// that no namespace makes the others forget. The zero value is empty. It is safe for concurrent use.
type Memory[K comparable, V any] struct {
	mu     sync.Mutex
	spaces map[string]map[K]remembered[V] // by namespace; no empty ones
	count  int
	puts   int
}

type remembered[V any] struct {
	value V
	put   int
}

// Put remembers a value, in place of the former one of its key. Bounds are how many values one namespace may have,
// and all.
func (m *Memory[K, V]) Put(most Bounds, namespace string, key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.spaces[namespace][key]; !known {
		m.makeRoom(most, namespace)
		m.count++
	}
	space := m.spaces[namespace]
	if space == nil {
		if m.spaces == nil {
			m.spaces = map[string]map[K]remembered[V]{}
		}
		space = map[K]remembered[V]{}
		m.spaces[namespace] = space
	}
	m.puts++
	space[key] = remembered[V]{value, m.puts}
}

// makeRoom makes room for one more value of a namespace.
func (m *Memory[K, V]) makeRoom(most Bounds, namespace string) {
	switch {
	case most.Each > 0 && len(m.spaces[namespace]) >= most.Each:
		m.forgetOldest(namespace)
	case most.All > 0 && m.count >= most.All:
		for name, space := range m.spaces {
			if len(space) > len(m.spaces[namespace]) {
				namespace = name
			}
		}
		m.forgetOldest(namespace)
	}
}

// Get returns what was put last for a key.
func (m *Memory[K, V]) Get(namespace string, key K) (value V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, known := m.spaces[namespace][key]
	return found.value, known
}

// Forget removes a key.
func (m *Memory[K, V]) Forget(namespace string, key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(namespace, key)
}

// Len is how many values are remembered.
func (m *Memory[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

func (m *Memory[K, V]) forgetOldest(namespace string) {
	oldest, since := *new(K), m.puts+1
	for key, one := range m.spaces[namespace] {
		if one.put < since {
			oldest, since = key, one.put
		}
	}
	m.forget(namespace, oldest)
}

func (m *Memory[K, V]) forget(namespace string, key K) {
	space := m.spaces[namespace]
	before := len(space)
	delete(space, key)
	m.count += len(space) - before
	if len(space) == 0 {
		delete(m.spaces, namespace)
	}
}
