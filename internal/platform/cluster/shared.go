package cluster

import (
	"strings"
	"sync"
)

// shared holds one value of each content, so that objects share it.
type shared[V any] struct {
	most int

	mu    sync.Mutex
	known map[string]V
}

// of returns the value of a content, and makes one that is not known.
func (s *shared[V]) of(content *strings.Builder, value func() V) V {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := content.String()
	if known, ok := s.known[key]; ok {
		return known
	}
	if len(s.known) >= s.most || s.known == nil {
		s.known = map[string]V{} // objects in the cache keep their own
	}
	s.known[key] = value()
	return s.known[key]
}
