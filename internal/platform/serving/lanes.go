package serving

import (
	"context"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/limpet-io/limpet/internal/platform/cluster"
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
//
// The API server is one source for all its users. So requests of a source that are about one
// namespace have a share of the source's places, and of large ones, one waits at a time.
type lanes struct {
	wait                          time.Duration
	most, perSource, perNamespace [laneCount]int

	places  cluster.Places[lane]
	sources cluster.Places[sourceLane]
	parties cluster.Places[partyLane]

	mu    sync.Mutex
	begun map[*request]time.Time // of the requests that are handled
}

// party is whose requests share the places of a source.
type party struct {
	source    netip.Addr
	namespace string
}

// sourceLane and partyLane are the keys of shares.
type (
	sourceLane struct {
		lane
		source netip.Addr
	}
	partyLane struct {
		lane
		party
	}
)

// request is one that is handled. Its size makes each one's address unique.
type request struct{ _ byte }

func newLanes(l Limits) *lanes {
	return &lanes{
		wait: l.Wait, begun: map[*request]time.Time{}, most: [laneCount]int{l.Small, 1, smallConversionsAtOnce, 1},
		perSource: [laneCount]int{l.PerSource, 1, 1, 1}, perNamespace: [laneCount]int{l.PerNamespace, 1, 1, 1},
	}
}

// share waits until a namespace has less than its share of the requests of a source, and the
// source less than its own.
func (l *lanes) share(ctx context.Context, kind lane, of party) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	leaveParty, err := l.parties.Enter(ctx, partyLane{kind, of}, l.perNamespace[kind], math.MaxInt)
	if err != nil {
		return nil, errBusy
	}
	leaveSource, err := l.sources.Enter(ctx, sourceLane{kind, of.source}, l.perSource[kind], math.MaxInt)
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
func (l *lanes) enter(ctx context.Context, kind lane, now time.Time) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	leavePlace, err := l.places.Enter(ctx, kind, l.most[kind], math.MaxInt)
	if err != nil {
		return nil, errBusy
	}
	end := l.begin(now)
	return func() {
		end()
		leavePlace()
	}, nil
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
