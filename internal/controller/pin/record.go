package pin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/evict"
	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/workload"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// Recorder writes into PersistentPodStates where the pods of their targets are Ready.
//
// One reconcile records every pod of the target that changed since the last: a burst of
// Ready pods costs as many writes as fit into it one after the other, not one per pod.
type Recorder struct {
	Client client.Client
	// Workloads reads the targets.
	Workloads *workloads.Reader
	// Watcher watches kinds of workload other than StatefulSets.
	Watcher *workloads.Watcher
	// MaxReservation is what the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
	Events         events.EventRecorder
	Metrics        *Metrics
	// Evictor deletes the pods that are released.
	Evictor *evict.Evictor

	last     sync.Map // of PersistentPodState keys: lastRecording
	deserted sync.Map // of PersistentPodState keys: since when there is none, while pods wait by it
}

// lastRecording is what a Recorder keeps of a PersistentPodState until the next time.
type lastRecording struct {
	gone     map[string]time.Time            // pin.Recording.Gone
	unstored map[string]appsv1beta1.PodState // pin.Recording.Unstored
	write    cluster.Write
}

// SetupWithManager registers the reconciler.
func (r *Recorder) SetupWithManager(mgr ctrl.Manager) error {
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("record").
		For(&appsv1beta1.PersistentPodState{}).
		Watches(&appsv1beta1.PersistentPodState{}, handler.EnqueueRequestsFromMapFunc(r.ofRival), builder.WithPredicates(createdOrDeleted)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(recordChanged)).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(r.ofStatefulSet)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(nodeRelabelled)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofTurnedNode), builder.WithPredicates(schedulabilityChanged)).
		WatchesRawSource(source.Channel(r.Workloads.Changed(), handler.EnqueueRequestsFromMapFunc(r.ofNode))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: cluster.BackOff[reconcile.Request](cluster.RetryLate)}).
		Build(cluster.RetryOnConflict(r))
	r.Watcher.OnServed(func(kind schema.GroupVersionKind) error {
		ofWorkload := func(ctx context.Context, o *metav1.PartialObjectMetadata) []reconcile.Request {
			return r.ofTarget(ctx, o.Namespace, workload.Target{Group: kind.Group, Kind: kind.Kind, Name: o.Name})
		}
		return c.Watch(source.Kind(mgr.GetCache(), workloads.Metadata(kind), handler.TypedEnqueueRequestsFromMapFunc(ofWorkload)))
	})
	return err
}

// Reconcile brings the status of one PersistentPodState in line with what runs.
func (r *Recorder) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var state appsv1beta1.PersistentPodState
	switch err := r.Client.Get(ctx, req.NamespacedName, &state); {
	case apierrors.IsNotFound(err):
		r.last.Delete(req)
		return r.releaseOrphans(ctx, req)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get PersistentPodState %s: %w", req, err)
	}
	r.deserted.Delete(req)
	last := r.lastOf(req)
	if wait := last.write.Unseen(state.ResourceVersion, r.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // the event of that write triggers a reconcile sooner
	}
	in, err := r.gather(ctx, &state)
	switch {
	case errors.Is(err, workloads.ErrUnread): // the first look at them asks again
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("gather for PersistentPodState %s: %w", req, err)
	}
	in.Gone, in.Unstored = last.gone, last.unstored
	return r.keep(ctx, req, in, pin.Record(in))
}

// keep writes a recording into its object, and then acts upon the rest of it.
func (r *Recorder) keep(ctx context.Context, req ctrl.Request, in pin.RecordInput, recording pin.Recording) (ctrl.Result, error) {
	switch err := r.write(ctx, in.State, recording.Status); {
	case apierrors.IsNotFound(err): // the cache will tell
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	r.last.Store(req, lastRecording{gone: recording.Gone, unstored: recording.Unstored, write: cluster.Write{Version: in.State.ResourceVersion, At: in.Now}})
	r.report(in, recording.Rebuilds)
	return ctrl.Result{RequeueAfter: recording.Again}, r.attend(ctx, in.State, recording.Waits)
}

// write writes a status that is another one than before.
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
	if !cluster.Conflict(err) && !apierrors.IsNotFound(err) { // it is tried again; who looks at the object should see why it is out of date
		r.Events.Eventf(state, nil, corev1.EventTypeWarning, "NotRecorded", "Record", "%s", err)
	}
	return err
}

func (r *Recorder) lastOf(req ctrl.Request) lastRecording {
	last, _ := r.last.Load(req)
	known, _ := last.(lastRecording)
	return known
}

// report tells of rebuilds once they are in the status, so that nobody hears of one twice.
func (r *Recorder) report(in pin.RecordInput, rebuilds []appsv1beta1.Rebuild) {
	for _, rebuild := range rebuilds {
		r.Metrics.rebuilt(rebuild)
		i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool { return p.Name == rebuild.Pod })
		kind, note := corev1.EventTypeNormal, fmt.Sprintf("on node %s with %s", rebuild.To.NodeName, rebuild.To.IPs)
		if rebuild.Outcome != appsv1beta1.Kept {
			kind = corev1.EventTypeWarning
			note = fmt.Sprintf("%s, before on node %s with %s; %s: %s",
				note, rebuild.From.NodeName, rebuild.From.IPs, rebuild.Cause, rebuild.Message)
		}
		r.Events.Eventf(&in.Pods[i], in.State, kind, string(rebuild.Outcome), "Rebuild", "%s", note)
	}
}

func (r *Recorder) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	pod := o.(*corev1.Pod)
	owner, ok := workload.OwnerOf(pod)
	if !ok {
		return nil
	}
	reqs := r.ofTarget(ctx, pod.Namespace, owner)
	if by := pin.PinnedBy(pod); by != "" && len(reqs) == 0 { // it may be gone
		reqs = append(reqs, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: by}})
	}
	return reqs
}

// ofRival asks for all that have the same target: another of them may count now.
func (r *Recorder) ofRival(ctx context.Context, o client.Object) []reconcile.Request {
	return r.ofTarget(ctx, o.GetNamespace(), pin.TargetOf(o.(*appsv1beta1.PersistentPodState)))
}

func (r *Recorder) ofStatefulSet(ctx context.Context, o client.Object) []reconcile.Request {
	return r.ofTarget(ctx, o.GetNamespace(), workload.Target{Group: appsv1.GroupName, Kind: "StatefulSet", Name: o.GetName()})
}

func (r *Recorder) ofTarget(ctx context.Context, namespace string, t workload.Target) []reconcile.Request {
	states, err := cluster.StatesOf(ctx, r.Client, namespace, t)
	if err != nil { // only a cache that is being stopped answers with an error
		return nil
	}
	return requests(states)
}

// ofNode asks for every PersistentPodState: nodes come and change labels seldom, and so
// do kinds of workload.
func (r *Recorder) ofNode(ctx context.Context, _ client.Object) []reconcile.Request {
	var list appsv1beta1.PersistentPodStateList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // see ofTarget
		return nil
	}
	return requests(list.Items)
}

func requests(states []appsv1beta1.PersistentPodState) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(states))
	for i := range states {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&states[i])})
	}
	return out
}
