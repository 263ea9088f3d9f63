package serving

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// lane is a kind of request that is handled apart from other kinds.
type lane int

const (
	smallAdmissions lane = iota
	largeAdmissions
	smallConversions
	largeConversions
	laneCount
)

// laneOf is the lane of a request.
func laneOf(path string, small bool) lane {
	switch {
	case path == ConversionPath && small:
		return smallConversions
	case path == ConversionPath:
		return largeConversions
	case small:
		return smallAdmissions
	}
	return largeAdmissions
}

// lanes bound how many requests are handled at a time. Small admissions are handled side by
// side, but one source cannot take all places. Large ones are handled one after the other,
// and one source has one of them at a time, so that it cannot be all that wait. Any client
// may ask for conversions, so that these have few places of their own, and one source has
// one.
type lanes struct {
	places    [laneCount]chan struct{}
	perSource [laneCount]int
	wait      time.Duration

	mu      sync.Mutex
	sources map[netip.Addr]*source
	begun   map[*request]time.Time // of the requests that are handled
}

// request is one that is handled. Its size makes each one's address unique.
type request struct{ _ byte }

// source is one address with requests.
type source struct {
	places   [laneCount]chan struct{}
	requests int // that wait or are handled
}

func newLanes(l Limits) *lanes {
	out := &lanes{wait: l.Wait, sources: map[netip.Addr]*source{}, begun: map[*request]time.Time{}}
	for kind, places := range [laneCount]int{l.Small, 1, smallConversionsAtOnce, 1} {
		out.places[kind], out.perSource[kind] = make(chan struct{}, places), 1
	}
	out.perSource[smallAdmissions] = l.PerSource
	return out
}

// errBusy is the answer to a request whose turn did not come.
var errBusy = &refusal{http.StatusServiceUnavailable, refusedBusy, "too many requests are handled at the moment"}

// enter waits for the request's turn. leave must be called at the end of the request.
func (l *lanes) enter(ctx context.Context, kind lane, now time.Time) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	places := l.places[kind]
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, errBusy
	}
	end := l.begin(now)
	return func() {
		end()
		<-places
	}, nil
}

// share waits until an address has less than its share of requests.
func (l *lanes) share(ctx context.Context, kind lane, from netip.Addr) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	l.mu.Lock()
	s := l.sources[from]
	if s == nil {
		s = &source{}
		for kind, places := range l.perSource {
			s.places[kind] = make(chan struct{}, places)
		}
		l.sources[from] = s
	}
	s.requests++
	l.mu.Unlock()
	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.requests--; s.requests == 0 {
			delete(l.sources, from)
		}
	}
	places := s.places[kind]
	select {
	case places <- struct{}{}:
		return func() {
			<-places
			forget()
		}, nil
	case <-ctx.Done():
		forget()
		return nil, errBusy
	}
}

// begin notes when a request began to be handled.
func (l *lanes) begin(now time.Time) (end func()) {
	key := &request{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun[key] = now
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.begun, key)
	}
}

// oldest is when the oldest request began that is still handled; now if there is none.
func (l *lanes) oldest(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.begun {
		if t.Before(now) {
			now = t
		}
	}
	return now
}
