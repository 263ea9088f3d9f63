package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// lendTimeout bounds one pass over the loans.
	lendTimeout = 30 * time.Second
	// lendOwners bounds the owners of a pass, and lendGap is the time until the next one after so many.
	lendOwners, lendGap = 100, 5 * time.Second
	// leastLend and mostLend bound the wait before a step is tried again.
	leastLend, mostLend = 500 * time.Millisecond, time.Minute
	// comes is how long the agent waits for a pod for which the controller lets this node borrow, in its list of pods.
	comes = 10 * time.Second
)

// lending carries out what loan.PlanNode decides. It has a goroutine of its own: rounds never wait for the API server.
type lending struct {
	*Agent
	woken chan struct{}
	// kernel is held while routes to guests change, together with what the state says: no ADD may meet a route to an address
	// that it can claim.
	kernel sync.Mutex

	mu      sync.Mutex
	network string           // in which addresses follow; "" while that is not known
	state   *plan.LoansInput // as of the last round, without the loans; nil before
	read    []netip.Prefix   // the ranges whose loans were read from the API server, and recorded
	unread  []netip.Prefix   // those whose loans shall be

	// Only the goroutine uses these.
	retries show.Retries[reservation.Owner]
	named   map[reservation.Owner]naming
	busy    show.Retry // of everything
}

// naming is a use of addresses that the controller let this node begin, and since when the agent knows.
type naming struct {
	epoch int64
	since time.Time
}

func newLending(a *Agent) *lending {
	name := a.follows.Network
	if a.OwnNetwork {
		name = plan.NetworkName
	}
	return &lending{Agent: a, network: name, woken: make(chan struct{}, 1), retries: show.Retries[reservation.Owner]{}, named: map[reservation.Owner]naming{}}
}

// offer replaces what the loop knows of the node.
func (l *lending) offer(networks []network) {
	in := &plan.LoansInput{Node: l.Node, Network: l.name(), Owns: l.decided.Owns, Shared: l.Shared, Lacks: l.cluster.lacks}
	for _, n := range networks {
		if n.Name == in.Network {
			in.State = n.Network
		}
	}
	l.mu.Lock()
	l.state = in
	l.read = slices.DeleteFunc(l.read, func(p netip.Prefix) bool { return !slices.Contains(in.Owns, p) }) // another node may lend of a range that went
	l.mu.Unlock()
	show.Wake(l.woken)
}

// serve makes addresses follow in a network.
func (l *lending) serve(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.network = network
}

// name returns the network in which addresses follow; "" while that is not known, or where none do.
func (l *lending) name() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.network
}

// knows reports whether all loans of some ranges were read and recorded since the agent knows the ranges. If not, they are
// read.
func (l *lending) knows(ranges []netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return !slices.Contains(l.read, p) }) {
		return true
	}
	l.unread = ranges
	show.Wake(l.woken)
	return false
}

// latest returns what the loop knows of the node; nil before the first round. The ranges are those whose loans shall be read.
func (l *lending) latest() (*plan.LoansInput, []netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.unread
}

// run works until ctx ends.
func (l *lending) run(ctx context.Context) {
	for {
		var again time.Duration
		l.step("loans", func() (err error) {
			again, err = l.pass(ctx)
			return err
		})
		var when <-chan time.Time
		if again > 0 {
			when = l.Clock.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		case <-when:
		}
	}
}

// pass carries out the steps that are due. It returns when the next pass is due without news; 0 if it is not.
func (l *lending) pass(ctx context.Context) (again time.Duration, err error) {
	state, unread := l.latest()
	now := l.Clock.Now()
	if wait := l.busy.Until.Sub(now); wait > 0 {
		return wait, l.busy.Err
	}
	bounded, cancel := context.WithTimeout(ctx, lendTimeout)
	defer cancel()
	if len(unread) > 0 {
		if err := l.readAll(bounded, unread); err != nil {
			return l.failed(ctx, err)
		}
	}
	loans, told := l.cluster.allLoans()
	if state == nil || !told {
		return 0, nil
	}
	in := *state
	in.Loans, in.BootID, in.Waits = loans, l.Now().BootID, l.waits
	cases := plan.LoanCases(in)
	l.forget(cases)
	if len(cases) == 0 {
		return 0, nil
	}
	pods, known, err := l.Pods.Pods(bounded)
	if !known {
		return 0, err
	}
	p := lendPass{lending: l, in: in, hasPod: plan.HasPod(l.Node, pods), lingers: new(bool)}
	due, err := p.due(bounded, cases, now)
	if err != nil {
		return leastLend, err
	}
	for _, c := range due[:min(len(due), lendOwners)] {
		if err := p.settle(bounded, c); err != nil && !l.later(c.Owner, err) {
			return l.failed(ctx, err)
		} else if err == nil {
			delete(l.retries, c.Owner)
			l.busy = show.Retry{}
		}
	}
	if len(due) > lendOwners {
		return lendGap, l.retries.Standing()
	}
	if again = l.nextRetry(now); *p.lingers && (again == 0 || again > leastLend) {
		again = leastLend
	}
	return again, l.retries.Standing()
}

// readAll records the loans of ranges that this node did not have, before one of its pods can get an address of them.
func (l *lending) readAll(ctx context.Context, ranges []netip.Prefix) error {
	p := lendPass{lending: l, in: plan.LoansInput{Node: l.Node, Network: l.name(), Owns: ranges, Shared: l.Shared, Lacks: l.cluster.lacks}, hasPod: func(plan.LoanCase) bool { return false }, lingers: new(bool)}
	var err error
	if p.in.Loans, err = l.allStored(ctx); err != nil {
		return err
	}
	for _, c := range plan.LoanCases(p.in) {
		if !p.in.Input(c, false, true).Owns {
			continue
		}
		err := p.carryOut(ctx, c)
		if _, answered := errors.AsType[answerError](err); err != nil && !answered && !errors.Is(err, reservation.ErrHeld) {
			return fmt.Errorf("record loans of new ranges: %w", err)
		} // else the record stands, or a pod has the address already
	}
	l.mu.Lock()
	l.read, l.unread = append(l.read, ranges...), nil
	l.mu.Unlock()
	l.cluster.notify()
	return nil
}

// forget drops what concerns none of the cases.
func (l *lending) forget(cases []plan.LoanCase) {
	owners := map[reservation.Owner]bool{}
	for _, c := range cases {
		owners[c.Owner] = true
	}
	maps.DeleteFunc(l.retries, func(o reservation.Owner, _ show.Retry) bool { return !owners[o] })
	maps.DeleteFunc(l.named, func(o reservation.Owner, _ naming) bool { return !owners[o] })
}

// failed notes that the API server answers nothing for now.
func (l *lending) failed(ctx context.Context, err error) (again time.Duration, _ error) {
	if ctx.Err() != nil {
		return 0, fmt.Errorf("carry out loans: %w", ctx.Err())
	}
	l.busy = l.busy.After(err, leastLend, mostLend, l.Clock.Now(), rand.Float64())
	return l.busy.Until.Sub(l.Clock.Now()), err
}

// later notes that a step of an owner failed; false if the API server would answer no other one either. Another writer was
// first where the error is none that people need to know.
func (l *lending) later(o reservation.Owner, err error) bool {
	if answer, ok := errors.AsType[answerError](err); ok {
		means := plan.Judge(answer.verb, answer.err)
		if means == plan.Busy {
			return false
		}
		if means == plan.Outdated || means == plan.Vanished {
			err = nil
		}
	}
	l.retries[o] = l.retries[o].After(err, leastLend, mostLend, l.Clock.Now(), rand.Float64())
	return true
}

// nextRetry returns the time until the next owner is tried again; 0 for none.
func (l *lending) nextRetry(now time.Time) (next time.Duration) {
	if due := l.retries.Next(now); !due.IsZero() {
		next = due.Sub(now)
	}
	for _, n := range l.named {
		if wait := n.since.Add(comes).Sub(now); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// notServed reports whether an API server answered that it knows no such kind.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, "UnexpectedServerResponse")
}
