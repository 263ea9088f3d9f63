package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/evict"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// PodWaits is what the Nominator looks at, and RecordChanged what the Recorder looks at.
var (
	PodWaits      = podWaits
	RecordChanged = recordChanged
)

// KindRequest requests the reconcile of one workload.
type KindRequest = kindRequest

// LacksPods is what the Resyncer looks at.
var LacksPods = lacksPods

// Resync is one pass of a Resyncer.
func (n *Resyncer) Resync(ctx context.Context) error { return n.resync(ctx) }

// GateQueue makes the queue of the Nominator, and GateHandler adds pods to it.
var (
	GateQueue   = gateQueue
	GateHandler = gateHandler
)

// OfNode are what the labels and the schedulability of a node trigger.
func OfNode(ctx context.Context, c client.Client, node client.Object) (labels, schedulability []reconcile.Request) {
	t := triggers{c}
	return t.labels(ctx, node), t.schedulability(ctx, node)
}

// Release deletes the pods of some waits that are over.
func Release(ctx context.Context, c client.Client, waits []pin.Wait) error {
	return releaser{evictor: &evict.Evictor{Client: c}}.release(ctx, nil, waits)
}

// BringHome deletes a pod that returns to its home.
func (r *Recorder) BringHome(ctx context.Context, state *appsv1beta1.PersistentPodState, pod *corev1.Pod) error {
	return r.bringHome(ctx, state, pod)
}

// NodeEvents pass the events of nodes.
var NodeEvents = []predicate.Funcs{nodeRelabelled, schedulabilityChanged}

// Waiting is how many notices wait to be told.
func (a *Aggregator) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gathering.Kept()
}
