package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

const (
	// holeGrace is how long a free layer is kept for a pod that is on its way. With it, a pod that
	// is replaced costs one write and not two.
	holeGrace = 2 * time.Second
	// writesPerSecond is how many pods of a namespace are written in a second: a user can make
	// all costs change by one request.
	writesPerSecond = 200
)

// Reconciler writes the deletion costs of the pods of ReplicaSets. It runs on the leader.
type Reconciler struct {
	Client  client.Client
	Clock   clock.PassiveClock
	Events  events.EventRecorder
	Metrics *Metrics

	memory memory
}

// Reconcile writes the costs of one ReplicaSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var set appsv1.ReplicaSet
	if err := r.Client.Get(ctx, req.NamespacedName, &set, client.UnsafeDisableDeepCopy); err != nil {
		r.memory.forget(keyOf(req.NamespacedName))
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	g, err := r.groupOf(ctx, &set)
	switch {
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("order pods of ReplicaSet %s: %w", req, err)
	case g == nil:
		r.memory.forget(keyOf(req.NamespacedName))
		return ctrl.Result{}, nil
	}
	result, err := r.order(ctx, g)
	if err != nil {
		return result, fmt.Errorf("order pods of ReplicaSet %s: %w", req, err)
	}
	return result, nil
}

// order writes the costs of a group.
func (r *Reconciler) order(ctx context.Context, g *group) (ctrl.Result, error) {
	s, err := r.gather(ctx, g)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision, again := r.decide(s)
	left, err := r.write(ctx, s, decision)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case left:
		again = time.Second
	case !s.wanted():
		r.memory.forget(s.key)
		r.reportOrder(s)
		return ctrl.Result{}, nil
	}
	r.report(s, decision)
	return ctrl.Result{RequeueAfter: again}, nil
}

// wanted reports whether the pods have an order at all.
func (s *situation) wanted() bool { return s.balanced || s.spread }

// decide plans the costs. A free layer waits for a pod that is on its way, but not for long: a
// scale-in may come before that pod.
func (r *Reconciler) decide(s *situation) (d scalein.Decision, again time.Duration) {
	now := r.Clock.Now()
	r.memory.keep(s.key, s.byName)
	free := r.memory.hole(s.key, now)
	waiting := s.bound < s.wants && free < holeGrace
	for _, in := range s.inputs {
		in.Waiting = waiting
		part := scalein.Plan(in)
		d.Writes, d.Foreign, d.Holes = append(d.Writes, part.Writes...), append(d.Foreign, part.Foreign...), d.Holes || part.Holes
	}
	slices.Sort(d.Foreign)
	if s.wanted() {
		r.memory.setHole(s.key, d.Holes, now)
	}
	if d.Holes {
		again = holeGrace - free
	}
	return d, again
}
