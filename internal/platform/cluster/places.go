package cluster

import (
	"context"
	"errors"
	"sync"
)

// ErrCrowded is returned for a read where too many reads wait.
var ErrCrowded = errors.New("too many reads wait for the API server")

// Places bounds how many requests of each key are inside at a time. A key without requests is
// forgotten. The zero value is ready.
type Places[K comparable] struct {
	mu   sync.Mutex
	keys map[K]*places
}

// places are those of one key.
type places struct {
	taken    chan struct{}
	requests int // that wait or are inside
}

// Enter waits for one of the places of a key, which must have the same number of places at each call.
// It returns ErrCrowded where as many requests wait as may. leave must be called at the end.
func (p *Places[K]) Enter(ctx context.Context, key K, most, waiting int) (leave func(), err error) {
	own := p.ask(key, most, waiting)
	if own == nil {
		return nil, ErrCrowded
	}
	select {
	case own.taken <- struct{}{}:
		return func() {
			<-own.taken
			p.forget(key, own)
		}, nil
	case <-ctx.Done():
		p.forget(key, own)
		return nil, ctx.Err()
	}
}

// ask adds a request to a key; nil for one too many.
func (p *Places[K]) ask(key K, most, waiting int) *places {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.keys[key]
	if own == nil {
		own = &places{taken: make(chan struct{}, most)}
		if p.keys == nil {
			p.keys = map[K]*places{}
		}
		p.keys[key] = own
	}
	if own.requests-most >= waiting {
		return nil
	}
	own.requests++
	return own
}

func (p *Places[K]) forget(key K, own *places) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.requests--; own.requests == 0 {
		delete(p.keys, key)
	}
}

// Requests is how many requests of all keys wait or are inside.
func (p *Places[K]) Requests() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, own := range p.keys {
		n += own.requests
	}
	return n
}
