package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ErrDeposed is returned when another replica leads after this one did.
var ErrDeposed = errors.New("another replica leads now")

// Options are what an Elector works with.
type Options struct {
	// Client reads and writes the Lease past every cache.
	Client client.Client
	// Lease is the name of the Lease.
	Lease client.ObjectKey
	// Identity of this replica; no other process has the same.
	Identity string
	Clock    clock.Clock
	Events   events.EventRecorder
	Registry prometheus.Registerer
}

// Elector holds the Lease, or waits for it.
type Elector struct {
	Options
	elected chan struct{} // closed at the first election

	mu     sync.Mutex
	until  time.Time     // the end of the term
	gained chan struct{} // closed at the next renewal, for writes that wait

	// What follows belongs to the loop.
	known *coordinationv1.Lease // as it was read last
	seen  time.Time
	blind bool // the API server did not answer at the last look
	led   bool
}

// New returns an Elector that does not lead.
func New(o Options) *Elector {
	e := &Elector{Options: o, elected: make(chan struct{}), gained: make(chan struct{})}
	o.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "limpet_leader", Help: "Whether this replica leads (1) or not (0). A leader that cannot renew its Lease does not lead until it can.",
	}, func() float64 {
		if leads, _ := e.leads(); leads {
			return 1
		}
		return 0
	}))
	return e
}

// Elected is closed when this replica leads for the first time.
func (e *Elector) Elected() <-chan struct{} { return e.elected }

// NeedLeaderElection tells that an Elector runs in every replica.
func (e *Elector) NeedLeaderElection() bool { return false }

// Start takes and renews the Lease until ctx ends, and then gives the Lease back. It returns
// ErrDeposed when another replica has taken the Lease.
func (e *Elector) Start(ctx context.Context) error {
	for {
		err := e.round(ctx)
		switch {
		case ctx.Err() != nil:
			return e.release(context.WithoutCancel(ctx))
		case errors.Is(err, ErrDeposed):
			return err
		case err != nil:
			log.FromContext(ctx).Info("The Lease of the leader was not read or renewed, which is tried again", "cause", err.Error())
		}
		select {
		case <-e.Clock.After(wait.Jitter(retry, 0.1)):
		case <-ctx.Done():
		}
	}
}

// round looks at the Lease once, and takes or renews it if it may.
func (e *Elector) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	began := e.Clock.Now()
	lease, err := e.read(ctx)
	if err != nil {
		return err
	}
	switch plan(view{lease: lease, self: e.Identity, led: e.led, seen: e.seen, now: began}) {
	case follow:
		return nil
	case deposed:
		e.end()
		return fmt.Errorf("%w: %s", ErrDeposed, ptr.Deref(lease.Spec.HolderIdentity, ""))
	case take:
	}
	if err := e.write(ctx, lease, began); err != nil {
		return err
	}
	e.lead(ctx, began.Add(term))
	return nil
}

// read reads the Lease, and notes since when it is unchanged.
func (e *Elector) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	switch err := e.Client.Get(ctx, e.Lease, lease); {
	case apierrors.IsNotFound(err):
		lease = nil
	case err != nil:
		e.blind = true
		return nil, fmt.Errorf("read lease %s: %w", e.Lease, err)
	}
	if e.blind || lease == nil || e.known == nil || lease.ResourceVersion != e.known.ResourceVersion {
		e.seen = e.Clock.Now()
	}
	e.known, e.blind = lease, false
	return lease, nil
}

// write takes the Lease, or renews it. The API server refuses that if another replica was first.
func (e *Elector) write(ctx context.Context, lease *coordinationv1.Lease, now time.Time) error {
	next := lease
	if next == nil {
		next = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.Lease.Namespace, Name: e.Lease.Name}}
	}
	at := metav1.NewMicroTime(now)
	if holder := ptr.Deref(next.Spec.HolderIdentity, ""); holder != e.Identity {
		next.Spec.HolderIdentity, next.Spec.AcquireTime = new(e.Identity), &at
		next.Spec.LeaseTransitions = new(ptr.Deref(next.Spec.LeaseTransitions, 0) + 1)
	}
	next.Spec.RenewTime, next.Spec.LeaseDurationSeconds = &at, new(int32(duration/time.Second))
	var err error
	if lease == nil {
		err = e.Client.Create(ctx, next)
	} else {
		err = e.Client.Update(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("write lease %s: %w", e.Lease, err)
	}
	return nil
}

// reasonElected is the reason of the event on the Lease when a replica begins to lead.
const reasonElected = "LeaderElection"

// lead begins or prolongs the term, and lets the writes go on that wait for it.
func (e *Elector) lead(ctx context.Context, until time.Time) {
	e.mu.Lock()
	e.until = until
	close(e.gained)
	e.gained = make(chan struct{})
	e.mu.Unlock()
	if !e.led {
		log.FromContext(ctx).Info("This replica leads", "lease", e.Lease, "identity", e.Identity)
		lease := &corev1.ObjectReference{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease", Namespace: e.Lease.Namespace, Name: e.Lease.Name}
		e.Events.Eventf(lease, nil, corev1.EventTypeNormal, reasonElected, "Lead", "%s leads", e.Identity)
		e.led = true
		close(e.elected)
	}
}

// end ends the term.
func (e *Elector) end() {
	e.mu.Lock()
	e.until = time.Time{}
	e.mu.Unlock()
}

// release gives the Lease back, so that the next leader need not wait.
func (e *Elector) release(ctx context.Context) error {
	e.end()
	if !e.led {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	lease, err := e.read(ctx)
	if err != nil || lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") != e.Identity {
		return err
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	if err := e.Client.Update(ctx, lease); err != nil {
		return fmt.Errorf("release lease %s: %w", e.Lease, err)
	}
	return nil
}

// leads reports whether this replica leads, and returns the channel that its next renewal closes.
func (e *Elector) leads() (leads bool, gained <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Clock.Now().Before(e.until), e.gained
}

// Wait waits until this replica leads, or ctx ends.
func (e *Elector) Wait(ctx context.Context) error {
	for {
		leads, gained := e.leads()
		if leads {
			return nil
		}
		select {
		case <-gained:
		case <-ctx.Done():
			return fmt.Errorf("wait until this replica leads: %w", ctx.Err())
		}
	}
}
