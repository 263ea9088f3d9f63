package serving

import (
	"context"
	"sync"
	"time"
)

// shares bounds how many requests of each kind one client has that wait for their turn or are
// handled.
type shares[Client comparable] struct {
	most [laneCount]int
	wait time.Duration

	mu      sync.Mutex
	clients map[Client]*share
}

// share is one client with requests.
type share struct {
	places   [laneCount]chan struct{}
	requests int // that wait or are handled
}

func newShares[Client comparable](most [laneCount]int, wait time.Duration) *shares[Client] {
	return &shares[Client]{most: most, wait: wait, clients: map[Client]*share{}}
}

// enter waits until a client has less than its share of requests. leave must be called at the
// end of the request.
func (s *shares[Client]) enter(ctx context.Context, kind lane, of Client) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	own := s.ask(of)
	places := own.places[kind]
	select {
	case places <- struct{}{}:
		return func() {
			<-places
			s.forget(of, own)
		}, nil
	case <-ctx.Done():
		s.forget(of, own)
		return nil, errBusy
	}
}

func (s *shares[Client]) ask(of Client) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.clients[of]
	if own == nil {
		own = &share{}
		for kind, most := range s.most {
			own.places[kind] = make(chan struct{}, most)
		}
		s.clients[of] = own
	}
	own.requests++
	return own
}

func (s *shares[Client]) forget(of Client, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.requests--; own.requests == 0 {
		delete(s.clients, of)
	}
}
