package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Recorder records in PersistentPodStates where the pods of their targets are Ready.
//
// One reconcile records every pod of the target that changed since the last one. A burst
// of Ready pods therefore costs a few writes in sequence, not one write per pod.
type Recorder struct {
	Client client.Client
	// Workloads reads the targets.
	Workloads *workloads.Reader
	// Watcher watches kinds of workload other than StatefulSets.
	Watcher *workloads.Watcher
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
	Events         events.EventRecorder
	// Aggregator tells which pods were kept.
	Aggregator *Aggregator
	Metrics    *Metrics
	// Evictor deletes the pods that are released.
	Evictor *evict.Evictor
	// Leases tell whether the node of a pod that is deleted by force is still silent.
	Leases *LeaseMonitor

	last    sync.Map // lastRecording by the key of a PersistentPodState
	orphans orphans
	given   pendingGivenUp
}

// lastRecording is what a Recorder remembers of a PersistentPodState until the next time.
type lastRecording struct {
	nameTaken map[string]types.UID            // pin.Recording.NameTaken
	unstored  map[string]appsv1beta1.PodState // pin.Recording.Unstored
	write     cluster.Write
}

// Reconcile brings the status of one PersistentPodState in line with what runs.
func (r *Recorder) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var state appsv1beta1.PersistentPodState
	switch err := r.Client.Get(ctx, req.NamespacedName, &state); {
	case apierrors.IsNotFound(err):
		r.last.Delete(req)
		r.given.forget(req)
		return r.orphans.release(ctx, req, r.Client, r.Clock.Now(), r.releaser())
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get PersistentPodState %s: %w", req, err)
	}
	r.orphans.forget(req)
	last := r.lastOf(req)
	if wait := last.write.Unseen(state.ResourceVersion, r.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // the event of that write triggers a reconcile sooner
	}
	in, err := r.gatherer().gather(ctx, &state)
	switch {
	case errors.Is(err, workloads.ErrUnread): // their first reading triggers a reconcile
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("gather for PersistentPodState %s: %w", req, err)
	}
	in.Unstored, in.NameTaken = last.unstored, last.nameTaken
	in.GivenUp = r.given.list(req)
	return r.apply(ctx, req, in, pin.Record(in))
}

// apply writes a recording into its object, then reports and releases what it says.
func (r *Recorder) apply(ctx context.Context, req ctrl.Request, in pin.RecordInput, recording pin.Recording) (ctrl.Result, error) {
	if recording.Over { // unless the object has changed
		at := client.Preconditions{UID: &in.State.UID, ResourceVersion: &in.State.ResourceVersion}
		return ctrl.Result{}, client.IgnoreNotFound(r.Client.Delete(ctx, in.State, at))
	}
	before := in.State.Status.Conditions
	switch err := r.write(ctx, in.State, recording.Status); {
	case apierrors.IsNotFound(err): // the cache will show that
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	r.given.drop(req, in.GivenUp)
	r.last.Store(req, lastRecording{
		nameTaken: recording.NameTaken, unstored: recording.Unstored,
		write: cluster.Write{Version: in.State.ResourceVersion, At: in.Now},
	})
	r.reporter().rebuilds(in, recording.Rebuilds)
	r.reporter().namesakes(in.State, recording.Namesakes)
	r.reporter().topologyUnknown(in.State, before, recording.Status.Conditions)
	err := errors.Join(r.releaser().release(ctx, in.State, recording.Waits), r.bringHome(ctx, in.State, recording.Returning))
	return ctrl.Result{RequeueAfter: recording.Again}, err
}

// write writes a status that differs from the present one.
func (r *Recorder) write(ctx context.Context, state *appsv1beta1.PersistentPodState, status appsv1beta1.PersistentPodStateStatus) error {
	if equality.Semantic.DeepEqual(state.Status, status) {
		return nil
	}
	before := state.DeepCopy()
	state.Status = status
	err := r.Client.Status().Patch(ctx, state, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("record in PersistentPodState %s: %w", client.ObjectKeyFromObject(state), err)
	if !cluster.Conflict(err) && !apierrors.IsNotFound(err) {
		r.reporter().notRecorded(state, err)
	}
	return err
}

func (r *Recorder) lastOf(req ctrl.Request) lastRecording {
	last, _ := r.last.Load(req)
	known, _ := last.(lastRecording)
	return known
}

func (r *Recorder) gatherer() gatherer {
	return gatherer{client: r.Client, workloads: r.Workloads, maxReservation: r.MaxReservation, clock: r.Clock, leases: r.Leases}
}

func (r *Recorder) reporter() reporter { return reporter{r.Events, r.Metrics, r.Aggregator} }

func (r *Recorder) releaser() releaser { return releaser{r.Evictor, r.Leases, r.reporter()} }
