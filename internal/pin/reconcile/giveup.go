package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// givenUp reports whether a user gives a reservation up. The cache keeps the label only if it names the end of this
// reservation.
func givenUp(r *limpetv1alpha1.IPReservation) bool {
	return r.Status.Until != nil && r.Labels[limpetv1alpha1.LabelRelease] != ""
}

// becameGivenUp passes reservations that a user gives up, also when the controller starts. They are gone soon.
var becameGivenUp = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return givenUp(e.Object.(*limpetv1alpha1.IPReservation)) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*limpetv1alpha1.IPReservation), e.ObjectNew.(*limpetv1alpha1.IPReservation)
		return givenUp(after) && (!givenUp(before) || before.UID != after.UID || before.Status.PodUID != after.Status.PodUID)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// pendingGivenUp are the reservations that users gave up and that are not in the records yet, of each PersistentPodState
// by the UIDs of their objects. Each means a record as it is stored. So a record that the API server refuses to change
// gathers no later lives of its pod.
type pendingGivenUp struct {
	mu sync.Mutex
	of map[reconcile.Request]map[types.UID]pin.GivenUp
}

func (g *pendingGivenUp) add(req reconcile.Request, of types.UID, given pin.GivenUp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[reconcile.Request]map[types.UID]pin.GivenUp{}
	}
	if g.of[req] == nil {
		g.of[req] = map[types.UID]pin.GivenUp{}
	}
	g.of[req][of] = given
}

// list returns what waits for a PersistentPodState.
func (g *pendingGivenUp) list(req reconcile.Request) []pin.GivenUp {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.of[req]))
}

// drop forgets what is recorded. Others may have come meanwhile.
func (g *pendingGivenUp) drop(req reconcile.Request, recorded []pin.GivenUp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.of[req], func(_ types.UID, one pin.GivenUp) bool { return slices.Contains(recorded, one) })
	if len(g.of[req]) == 0 {
		delete(g.of, req)
	}
}

// forget drops all of a PersistentPodState that is gone.
func (g *pendingGivenUp) forget(req reconcile.Request) { g.drop(req, g.list(req)) }

// givenUp finds the PersistentPodStates that record the life of a reservation's pod, and notes for them that a user gives
// the addresses up. An agent speaks for its own node only.
func (r *Recorder) givenUp(ctx context.Context, o client.Object) (found []reconcile.Request) {
	held := o.(*limpetv1alpha1.IPReservation)
	if !givenUp(held) { // as it was before
		return nil
	}
	s := held.Status
	node, err := cluster.Node(ctx, r.Client, s.Node)
	if err != nil || !cluster.Believed(node, s.Node, held.OwnerReferences) { // only a cache that ends returns an error
		return nil
	}
	var states appsv1beta1.PersistentPodStateList
	if err := r.Client.List(ctx, &states, client.InNamespace(held.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	given := pin.GivenUp{Pod: s.Pod, UID: types.UID(s.PodUID), Node: s.Node, IPs: s.IPs}
	for i := range states.Items {
		if record, recorded := states.Items[i].Status.PodStates[s.Pod]; recorded && given.Means(record) {
			req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&states.Items[i])}
			r.given.add(req, held.UID, given)
			found = append(found, req)
		}
	}
	return found
}
