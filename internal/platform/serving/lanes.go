package serving

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
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
	// bodies are the large ones that are read or wait.
	bodies *endpoint.SourceLimit
}

// kind is a kind of request.
type kind struct{ conversion, small bool }

// party is whose requests share the places of a source.
type party struct {
	source    netip.Addr
	namespace string
}

func newLane(most, ofSource, ofParty int) *lane {
	return &lane{
		fair.NewSemaphore[party](fair.Bounds{Each: ofParty}),
		fair.NewSemaphore[netip.Addr](fair.Bounds{Each: ofSource}), fair.NewSemaphore[netip.Addr](fair.Bounds{All: most}),
		endpoint.NewSourceLimit(largeBodies),
	}
}

// lanes are those of all kinds.
type lanes struct {
	wait  time.Duration
	of    map[kind]*lane
	begun sync.Map // when each request that is handled began, by a key of its own
}

func newLanes(l Limits) *lanes {
	return &lanes{wait: l.Wait, of: map[kind]*lane{
		{small: true}: newLane(l.Small, l.PerSource, l.PerNamespace), {}: newLane(1, 1, 1),
		{conversion: true, small: true}: newLane(smallConversionsAtOnce, 1, 1), {conversion: true}: newLane(1, 1, 1),
	}}
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
	key := new(byte) // which is at no other address
	l.begun.Store(key, now)
	return func() {
		l.begun.Delete(key)
		leavePlace()
	}, nil
}

// oldest is when the oldest request began that is still handled; now if there is none.
func (l *lanes) oldest(now time.Time) time.Time {
	l.begun.Range(func(_, began any) bool {
		if t := began.(time.Time); t.Before(now) {
			now = t
		}
		return true
	})
	return now
}
