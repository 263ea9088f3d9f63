package fair

import (
	"context"
	"errors"
	"sync"
)

// ErrCrowded is returned to a request where as many wait as may.
var ErrCrowded = errors.New("too many requests wait")

// Bounds are those of a Semaphore; 0 for no bound.
type Bounds struct {
	Each, All int // the weight of the requests of one key, and of all, that are inside at a time
	Waiting   int // requests of one key that wait
	Requests  int // requests of all keys that wait or are inside
}

// within is what counts of a weight.
func (b Bounds) within(weight int) int {
	for _, most := range []int{b.Each, b.All} {
		if most > 0 {
			weight = min(weight, most)
		}
	}
	return max(weight, 1)
}

// Semaphore lets requests in, in turns of their keys. A key without requests is forgotten.
type Semaphore[K comparable] struct {
	bounds Bounds

	mu       sync.Mutex
	turns    Turns[K, chan struct{}]
	inside   int
	requests int
}

// NewSemaphore returns a semaphore without requests.
func NewSemaphore[K comparable](b Bounds) *Semaphore[K] {
	return &Semaphore[K]{bounds: b, turns: Turns[K, chan struct{}]{Each: b.Each}}
}

// Enter waits for the turn of a request. One that weighs more than its key may have inside is alone of its key.
// leave must be called at the end.
func (s *Semaphore[K]) Enter(ctx context.Context, key K, weight int) (leave func(), err error) {
	own := s.ask(key, weight)
	if own == nil {
		return nil, ErrCrowded
	}
	select {
	case <-own.Value:
		return func() { s.leave(own) }, nil
	case <-ctx.Done():
		s.leave(own)
		return nil, ctx.Err()
	}
}

// ask adds a request, which may begin at once; nil for one too many.
func (s *Semaphore[K]) ask(key K, weight int) *Item[K, chan struct{}] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bounds.Requests > 0 && s.requests >= s.bounds.Requests {
		return nil
	}
	own := s.turns.Push(key, make(chan struct{}), s.bounds.within(weight), false)
	s.begin()
	if !own.begun && s.bounds.Waiting > 0 && len(own.line.high) > s.bounds.Waiting {
		s.turns.Drop(own)
		return nil
	}
	s.requests++
	return own
}

// begin lets in those whose turn it is. Behind one that waits for room in all no other begins.
func (s *Semaphore[K]) begin() {
	for i := s.turns.Next(); i != nil && (s.bounds.All == 0 || s.inside+i.weight <= s.bounds.All); i = s.turns.Next() {
		s.turns.Begin(i)
		s.inside += i.weight
		close(i.Value)
	}
}

// leave ends a request, or its waiting.
func (s *Semaphore[K]) leave(own *Item[K, chan struct{}]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.begun {
		s.turns.End(own)
		s.inside -= own.weight
	} else {
		s.turns.Drop(own)
	}
	s.requests--
	s.begin() // also behind one that waits no longer
}

// Requests is how many requests wait or are inside.
func (s *Semaphore[K]) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}
