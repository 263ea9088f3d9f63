package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	// showTimeout bounds one pass over the API objects.
	showTimeout = 30 * time.Second
	// relist is how often the mirror lists what the API server has, to undo what others
	// have changed or deleted.
	relist = 10 * time.Minute
)

// offer replaces the objects that wait for the mirror. Only the rounds send to the
// channel, so after the receive there is room.
func (a *Agent) offer(objects []plan.Object) {
	select {
	case <-a.objects:
	default:
	}
	a.objects <- objects
}

// showLoop keeps the API like the newest objects. An API server that does not answer
// blocks its callers, so the loop has a goroutine of its own.
func (a *Agent) showLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case objects := <-a.objects:
			a.step("mirror", func() error { return a.mirror.show(ctx, objects, a.Clock.Now()) })
			a.step("event", func() error { return a.reportIPAM(ctx) })
			a.health.Observe(partMirror, a.Clock.Now(), nil)
		}
	}
}

// mirror keeps the API objects of one node. It remembers what it has written, so that a
// node without changes writes nothing.
type mirror struct {
	client *apiClient
	node   string
	shown  map[string]plan.Object // by plan.Key; nil: not known, list first
	listed time.Time
	// withoutNamespace are keys of objects whose namespace is terminating or gone. They are tried
	// again after the next listing; their reservations lapse without it.
	withoutNamespace map[string]bool
}

// show makes the API show exactly the wanted objects. After an error the next call lists
// first.
func (m *mirror) show(ctx context.Context, want []plan.Object, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	if m.shown == nil || now.Sub(m.listed) >= relist {
		m.listed = now
		if err := m.list(ctx); err != nil {
			m.shown = nil
			return err
		}
	}
	err := m.applyAll(ctx, plan.Changes(m.shown, want, m.withoutNamespace))
	if err != nil {
		m.shown = nil
	}
	return err
}

// applyAll continues after objects that the API server refuses. It stops when there is no
// answer, since the other writes would get none either, and when a deletion fails.
func (m *mirror) applyAll(ctx context.Context, changes []plan.Change) error {
	var errs []error
	for _, c := range changes {
		err := m.apply(ctx, c)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("%s %s: %w", c.Verb, plan.Key(c.Object), err))
		if c.Verb == plan.Delete || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			break
		}
	}
	return errors.Join(errs...)
}

func (m *mirror) apply(ctx context.Context, c plan.Change) error {
	key := plan.Key(c.Object)
	var err error
	switch c.Verb {
	case plan.Create:
		err = m.client.Create(ctx, c.Object)
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			m.withoutNamespace[key] = true
			return nil
		}
	case plan.Update:
		err = m.client.Update(ctx, c.Object)
	case plan.Delete:
		if err := m.client.Delete(ctx, c.Object); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		delete(m.shown, key)
		return nil
	}
	if err == nil {
		m.shown[key] = c.Object
	}
	return err
}

// list reads the objects of this node from the API server.
func (m *mirror) list(ctx context.Context) error {
	var ips v1alpha1.IPReservationList
	var pools v1alpha1.NodeIPPoolList
	if err := m.client.List(ctx, "ipreservations", m.node, &ips); err != nil {
		return fmt.Errorf("list IPReservations: %w", err)
	}
	if err := m.client.List(ctx, "nodeippools", m.node, &pools); err != nil {
		return fmt.Errorf("list NodeIPPools: %w", err)
	}
	m.shown, m.withoutNamespace = map[string]plan.Object{}, map[string]bool{}
	for i := range ips.Items {
		m.shown[plan.Key(&ips.Items[i])] = &ips.Items[i]
	}
	for i := range pools.Items {
		m.shown[plan.Key(&pools.Items[i])] = &pools.Items[i]
	}
	return nil
}
