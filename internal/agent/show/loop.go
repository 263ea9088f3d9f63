package show

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// Pace spreads what thousands of agents would do at the same moment. The zero Pace waits for nothing.
type Pace struct {
	// Start is the time within which, at random, a loop begins to ask the server. A change of the state
	// ends the wait.
	Start time.Duration
	// Reconnect is the time within which, at random, a watch that broke is opened again.
	Reconnect time.Duration
	// Counts is how long other numbers of a pool must last until they are written. A pod that is rebuilt
	// within this time costs no write of the pool.
	Counts time.Duration
	// Ends is how long the addresses of a pod that has ended are shown as attached. A pod that is back
	// within this time costs one write and not two. Readers know from the pod that it is gone.
	Ends time.Duration
	// Last bounds the passes that the loop makes when it ends; zero to make none. A restart of the node must not
	// leave the addresses of pods that have ended shown as attached until the node is back.
	Last time.Duration
}

// DefaultPace keeps 5 000 agents below two requests a second for each hundred of them, also in the first
// minute after a restart of the API server.
func DefaultPace() Pace {
	return Pace{Start: 10 * time.Second, Reconnect: time.Minute, Counts: 15 * time.Second, Ends: 5 * time.Second, Last: 2 * time.Second}
}

// Config says what a loop shows, and where.
type Config struct {
	Node string
	REST *rest.Config
	Pace Pace
	// Owner returns the owner reference to the Node, empty while it is not known. The loop watches the Node
	// itself when Owner is nil.
	Owner func() []metav1.OwnerReference
	// Around runs each pass, and may do more before or after it; nil to do nothing else.
	Around func(ctx context.Context, pass func() error)
	Clock  clock.WithTicker
	// Random returns numbers from 0 to 1, not including 1; nil for a generator of the process.
	Random func() float64
	Log    logr.Logger
}

// Loop keeps the API objects of one node like the objects that were offered last.
type Loop struct {
	Config
	// Client is for the other requests of the agent.
	Client *Client

	node       ownNode
	namespaces namespaces
	marks      marks
	memory     memory
	offered    chan struct{} // receives when there are newer objects

	mu   sync.Mutex
	want []plan.Object   // as offered last; nil before
	hold map[string]bool // keys of objects that stay as they are
}

// New returns a loop that has not connected yet.
func New(c Config) (*Loop, error) {
	client, err := newClient(c.REST)
	if err != nil {
		return nil, err
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Around == nil {
		c.Around = func(_ context.Context, pass func() error) { _ = pass() } // the loop tries again by itself
	}
	l := &Loop{Config: c, Client: client, offered: make(chan struct{}, 1)}
	l.memory = memory{versions: map[string]string{}, retries: Retries[string]{}, differs: map[string]time.Time{}}
	l.namespaces.loop, l.namespaces.changed, l.namespaces.of = l, make(chan struct{}, 1), map[string]*namespace{}
	l.marks.loop, l.marks.of = l, map[string]*marked{}
	if l.Owner == nil {
		l.Owner = l.node.owner
		l.node.watched = true
	}
	return l, nil
}

// Offer replaces the objects that the API should show. The loop gives them their owner. The objects with the keys in hold
// stay as the API has them, whether or not they are among the others.
func (l *Loop) Offer(objects []plan.Object, hold ...string) {
	l.mu.Lock()
	l.want, l.hold = objects, map[string]bool{}
	for _, key := range hold {
		l.hold[key] = true
	}
	l.mu.Unlock()
	Wake(l.offered)
}

// Wake sends a notification, unless one is pending.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// latest returns the objects that were offered last, and the keys of those that stay as they are; false before.
func (l *Loop) latest() (want []plan.Object, hold map[string]bool, offered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want, l.hold, l.want != nil
}

// Run works until ctx ends. An API server that does not answer blocks its callers, so the loop needs a
// goroutine of its own.
func (l *Loop) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer l.namespaces.stopAll()
	defer l.marks.follow(ctx, nil)
	l.waitForStart(ctx)
	if l.node.watched {
		running.Go(func() { l.watchOwnNode(ctx) })
		l.waitForNode(ctx)
	}
	for ctx.Err() == nil {
		var due time.Time
		l.Around(ctx, func() (err error) {
			due, err = l.pass(ctx)
			return err
		})
		l.wait(ctx, due)
	}
	l.lastPasses(ctx)
}

// lastPasses writes what else would wait for its time, after ctx has ended. A loop that has not asked the server
// yet leaves the objects to the next agent. The second pass writes what the first has found changed on the server: the end
// of ctx may have hidden the answer to a write.
func (l *Loop) lastPasses(ctx context.Context) {
	if l.Pace.Last == 0 || l.memory.shown == nil {
		return
	}
	l.Pace.Counts, l.Pace.Ends = 0, 0
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Pace.Last)
	defer cancel()
	for range 2 {
		l.memory.rest = time.Time{}
		clear(l.memory.retries)
		l.Around(ctx, func() error {
			_, err := l.passWithin(ctx, bounded)
			return err
		})
	}
}

// wait returns when there are newer objects, when a namespace has come or gone, or when a time has come.
func (l *Loop) wait(ctx context.Context, due time.Time) {
	var when <-chan time.Time
	if !due.IsZero() {
		left := due.Sub(l.Clock.Now())
		if left <= 0 {
			return
		}
		timer := l.Clock.NewTimer(left)
		defer timer.Stop()
		when = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-l.offered:
	case <-l.namespaces.changed:
	case <-when:
	}
}

// waitForStart waits until the loop may begin to ask the server: a random time, or until the state changes.
func (l *Loop) waitForStart(ctx context.Context) {
	if l.Pace.Start == 0 {
		return
	}
	start := l.Clock.NewTimer(time.Duration(l.Random() * float64(l.Pace.Start)))
	defer start.Stop()
	var first []plan.Object
	for {
		select {
		case <-ctx.Done():
			return
		case <-start.C():
			return
		case <-l.offered:
		}
		now, _, _ := l.latest()
		if first != nil && len(plan.Changes(byKey(first), now, nil)) > 0 {
			Wake(l.offered) // for the first pass
			return
		}
		first = now
	}
}

// byKey returns objects by their keys.
func byKey(objects []plan.Object) map[string]plan.Object {
	all := map[string]plan.Object{}
	for _, o := range objects {
		all[plan.Key(o)] = o
	}
	return all
}
