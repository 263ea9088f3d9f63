package reconcile

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread/placement"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	// lookAgain is when a spread is looked at again whose pods wait for something that no event tells.
	lookAgain = 10 * time.Second
	// polled is when the size of a workload is read again that no watch tells.
	polled = time.Minute
	// soon is when the rest of a task is done.
	soon = time.Second
)

// Reconciler adopts pods, writes the status of spreads, and lets pods move on that cannot be
// scheduled. It runs on the leader.
type Reconciler struct {
	Client client.Client
	// Live reads pods past the cache, which holds a part of each pod.
	Live  client.Reader
	Sizes *workloads.Scales
	// Kinds watches the kinds of workload that are named for spreads.
	Kinds *workloads.Watcher
	Books *books.Books
	// Tally knows which entries became pods.
	Tally   *placement.Tally
	Clock   clock.PassiveClock
	Events  events.EventRecorder
	Metrics *Metrics

	// Evictor asks the budgets of a pod before it deletes the pod.
	Evictor *evict.Evictor

	memory memory
	rests  fair.Rests[client.ObjectKey]
}

// restPerPod is how long a spread rests for each of its pods after it was looked at. A look at 5 000 pods takes tens of
// milliseconds of a CPU, and new pods wait for their subset meanwhile.
const restPerPod = 200 * time.Microsecond

// restOf is how long a spread rests longer than its events are gathered. Small ones do not.
func restOf(pods int) time.Duration { return max(0, time.Duration(pods)*restPerPod-gathering) }

// Reconcile looks at one spread.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ws appsv1beta1.WorkloadSpread
	err := r.Client.Get(ctx, req.NamespacedName, &ws, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && ws.DeletionTimestamp != nil:
		r.memory.forget(req.NamespacedName)
		r.rests.Begin(req.NamespacedName, r.Clock.Now(), 0)
		r.Metrics.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get WorkloadSpread %s: %w", req, err)
	}
	if left := r.rests.Left(req.NamespacedName, r.Clock.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if r.memory.behind(req.NamespacedName, ws.ResourceVersion, r.Clock.Now()) { // a status that is old looks like one that needs no write
		return ctrl.Result{RequeueAfter: gathering}, nil
	}
	again, err := r.reconcile(ctx, &ws)
	return r.result(req, again, err)
}

// result ends a look. A spread does not rest after a failure: the queue forgets how often a look has
// failed when the next one is put off, and would repeat the failure after each rest.
func (r *Reconciler) result(req ctrl.Request, again time.Duration, err error) (ctrl.Result, error) {
	if err != nil {
		r.rests.Begin(req.NamespacedName, r.Clock.Now(), 0)
		return ctrl.Result{}, fmt.Errorf("reconcile WorkloadSpread %s: %w", req, err)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

func (r *Reconciler) reconcile(ctx context.Context, ws *appsv1beta1.WorkloadSpread) (time.Duration, error) {
	resizing := r.memory.resizing(client.ObjectKeyFromObject(ws), r.Clock.Now())
	s, err := r.gather(ctx, ws)
	if err != nil {
		return 0, err
	}
	r.rests.Begin(client.ObjectKeyFromObject(ws), r.Clock.Now(), restOf(len(s.pods)))
	again, err := r.adopt(ctx, s)
	if err != nil {
		return 0, err
	}
	actions, err := r.decide(ctx, s)
	if err != nil {
		return 0, err
	}
	if s.problem, err = r.patchProblem(ctx, s); err != nil {
		return 0, err
	}
	if err := r.addRoom(ctx, s); err != nil {
		return 0, err
	}
	if err := r.writeStatus(ctx, s, actions); err != nil {
		return 0, err
	}
	later, err := r.move(ctx, s, actions)
	if err != nil {
		return 0, err
	}
	again = sooner(sooner(sooner(again, later), actions.Again), resizing)
	if len(s.entries) > 0 || s.unknown != "" || len(s.nearer) > 0 {
		again = sooner(again, lookAgain)
	}
	if !r.followed(ws) || s.surges { // no event of the spread tells of room
		again = sooner(again, polled)
	}
	return again, nil
}

// sooner returns the shorter one of two times; 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
