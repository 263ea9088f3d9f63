package health

import (
	"slices"
	"sync"
	"time"
)

// Monitor records the progress of a program's parts. Its methods may be called at the same
// time.
type Monitor struct {
	mu    sync.Mutex
	parts []Part
}

// Add adds a part, which begins now.
func (m *Monitor) Add(name string, limit time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts = append(m.parts, Part{Name: name, Progress: now, Limit: limit})
}

// Observe records the outcome of an attempt. An error is no progress.
func (m *Monitor) Observe(name string, now time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.parts {
		if p := &m.parts[i]; p.Name == name {
			p.Err = err
			if err == nil {
				p.Progress = now
			}
		}
	}
}

// Verdict is the verdict about all parts.
func (m *Monitor) Verdict(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Verdict(now, slices.Clone(m.parts)...)
}
