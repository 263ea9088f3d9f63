package serving

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// lane bounds how many requests of one kind are handled at a time, apart from those of other kinds. Small
// admissions are handled side by side, but one source cannot take all places. Large ones are handled one after
// the other, and one source has one of them at a time, so that it cannot be all that wait. Any client may ask
// for conversions, so that these have few places of their own, and one source has one.
//
// The API server is one source for all its users. So requests of a source that are about one namespace have a
// share of the source's places, and of large ones, one waits at a time.
type lane struct {
	parties         *fair.Semaphore[party]
	sources, places *fair.Semaphore[netip.Addr]
}

// party is whose requests share the places of a source.
type party struct {
	source    netip.Addr
	namespace string
}

func newLane(most, ofSource, ofParty int) *lane {
	return &lane{
		fair.NewSemaphore[party](fair.Bounds{Each: ofParty}),
		fair.NewSemaphore[netip.Addr](fair.Bounds{Each: ofSource}), fair.NewSemaphore[netip.Addr](fair.Bounds{All: most}),
	}
}

// lanes are all kinds.
type lanes struct {
	wait                                                                 time.Duration
	smallAdmissions, largeAdmissions, smallConversions, largeConversions *lane

	mu    sync.Mutex
	begun map[*request]time.Time // of the requests that are handled
}

// request is one that is handled. Its size makes each one's address unique.
type request struct{ _ byte }

func newLanes(l Limits) *lanes {
	return &lanes{
		wait: l.Wait, begun: map[*request]time.Time{},
		smallAdmissions: newLane(l.Small, l.PerSource, l.PerNamespace), largeAdmissions: newLane(1, 1, 1),
		smallConversions: newLane(smallConversionsAtOnce, 1, 1), largeConversions: newLane(1, 1, 1),
	}
}

// of is the lane of a request.
func (l *lanes) of(path string, small bool) *lane {
	switch {
	case path == ConversionPath && small:
		return l.smallConversions
	case path == ConversionPath:
		return l.largeConversions
	case small:
		return l.smallAdmissions
	}
	return l.largeAdmissions
}

// share waits until a namespace has less than its share of the requests of a source, and the
// source less than its own.
func (l *lanes) share(ctx context.Context, in *lane, of party) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	leaveParty, err := in.parties.Enter(ctx, of, 1)
	if err != nil {
		return nil, errBusy
	}
	leaveSource, err := in.sources.Enter(ctx, of.source, 1)
	if err != nil {
		leaveParty()
		return nil, errBusy
	}
	return func() {
		leaveSource()
		leaveParty()
	}, nil
}

// errBusy is the answer to a request whose turn did not come.
var errBusy = &refusal{http.StatusServiceUnavailable, refusedBusy, "too many requests are handled at the moment"}

// enter waits for the request's turn. leave must be called at the end of the request.
func (l *lanes) enter(ctx context.Context, in *lane, source netip.Addr, now time.Time) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	leavePlace, err := in.places.Enter(ctx, source, 1)
	if err != nil {
		return nil, errBusy
	}
	key := &request{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun[key] = now
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.begun, key)
		leavePlace()
	}, nil
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
