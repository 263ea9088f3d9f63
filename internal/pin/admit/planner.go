// Package admit has what pin adds to the creation of a pod: the way back to its recorded node.
package admit

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Planner is the planner that brings rebuilt pods back to their nodes.
type Planner struct {
	// Cached reads PersistentPodStates, IPReservations, NodeIPPools and nodes.
	Cached client.Reader
	// Live reads past the cache where the cache may be behind.
	Live client.Reader
	// LiveProven is Live for what exists: workloads that were seen, and states that the cache
	// shows. Users can name workloads that do not exist, and the reads for their pods must not
	// delay the others.
	LiveProven client.Reader
	// Workloads reads the workloads whose pods return.
	Workloads *workloads.Reader
	// Sightings tell where deleted pods ran.
	Sightings *cluster.Sightings
	Clock     clock.PassiveClock
}

var _ creation.Planner = (*Planner)(nil)

// Name is the planner's name.
func (p *Planner) Name() string { return creation.Pin }

// Plan gathers what pin.Plan decides from, and returns its patch.
func (p *Planner) Plan(ctx context.Context, facts creation.Facts) (creation.Plan, error) {
	owner, owned := workload.OwnerOf(facts.Pod)
	name := reservation.OwnerName("", facts.Pod.Annotations)
	if !owned && name == "" {
		return creation.Plan{}, nil
	}
	in := pin.Input{Pod: facts.Pod, Retains: facts.Retention.Retain > 0, Now: facts.Now}
	var err error
	switch {
	case name != "":
		err = p.gatherOwner(ctx, &in, name)
	case p.Workloads.Kinds().Contains(owner):
		var exists bool
		if exists, err = p.ownerExists(ctx, owner, facts); err == nil && exists {
			err = p.gather(ctx, &in, owner, facts.DryRun)
		}
	}
	if err != nil {
		return creation.Plan{}, err
	}
	decision := pin.Plan(in)
	log.FromContext(ctx).V(1).Info("Planned pin", "reason", decision.Reason, "message", decision.Message)
	plan := creation.Plan{Patch: pin.Sealed(decision.Patch), Instead: pin.Overruled()}
	if decision.Verdict == pin.Pin {
		plan.Node = pin.RecordedNode(in.State, facts.Pod.Name)
	}
	return plan, nil
}

// ownerExists reports whether the StatefulSet that controls the pod exists, with the UID that
// the pod names. A client that asks about pods of others does not know that UID, and learns
// nothing. The garbage collector deletes a pod whose owner does not exist. A workload of
// another kind may be one that the controller cannot read.
func (p *Planner) ownerExists(ctx context.Context, owner workload.Target, facts creation.Facts) (bool, error) {
	switch {
	case owner.Group != appsv1.GroupName:
		return true, nil
	case facts.DryRun:
		return p.Workloads.CachedOwner(ctx, facts.Pod) != nil, nil
	}
	set, _, err := p.Workloads.Owner(ctx, facts.Pod, facts.Now)
	return set != nil, err
}

func (p *Planner) gather(ctx context.Context, in *pin.Input, owner workload.Target, dryRun bool) error {
	states, err := cluster.StatesOf(ctx, p.Cached, in.Pod.Namespace, owner)
	if err != nil {
		return err
	}
	if err := p.restore(ctx, in, pin.Choose(states), dryRun); err != nil {
		return err
	}
	if name := pin.RecordedNode(in.State, in.Pod.Name); name != "" {
		if in.Node, err = cluster.Node(ctx, p.Cached, name); err != nil {
			return err
		}
		if in.Pools, err = cluster.PoolsOf(ctx, p.Cached, name); err != nil {
			return err
		}
	}
	if in.State != nil && in.State.Spec.RequiredPersistentTopology != nil {
		in.Cluster, err = cluster.Nodes(ctx, p.Cached)
	}
	return err
}

// holders gathers which nodes hold a pod's addresses.
func (p *Planner) holders(ctx context.Context, pod *corev1.Pod) ([]pin.Holder, map[string]*corev1.Node, error) {
	held, nodes, err := cluster.HeldOn(ctx, p.Cached, client.ObjectKeyFromObject(pod))
	return pin.Holders(held, nodes, p.Clock.Now()), nodes, err
}

// proven returns the holders that may overrule the record of a pod, by what this replica has
// seen of the pod.
func (p *Planner) proven(ctx context.Context, in *pin.Input, holders []pin.Holder) ([]pin.Holder, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	last, err := p.Sightings.Last(ctx, p.Cached, client.ObjectKeyFromObject(in.Pod))
	if err != nil {
		return nil, err
	}
	return pin.Proven(holders, in.State.Status.PodStates[in.Pod.Name], (*pin.Life)(last)), nil
}

// restore sets the state with the record from which the pod is planned. Usually that is the
// state in the cache. The cache may be behind the API server in three cases: it has no
// record, another node shows a later life of the pod, or the pod may just have been
// released. Then the API server is asked; and where it knows no more, the node that holds
// the pod's addresses serves as the record, if a replica has seen the pod there.
//
// A dry run is planned from the cache alone. It leaves nothing behind, so that a user could
// make the API server answer any number of reads.
func (p *Planner) restore(ctx context.Context, in *pin.Input, cached *appsv1beta1.PersistentPodState, dryRun bool) error {
	var holders []pin.Holder
	var nodes map[string]*corev1.Node
	var err error
	if in.Retains {
		if holders, nodes, err = p.holders(ctx, in.Pod); err != nil {
			return err
		}
	}
	if dryRun {
		in.State = p.cachedState(ctx, in.Pod, cached)
	} else {
		if in.State, err = p.newestState(ctx, in.Pod, cached, holders); err == nil {
			err = p.served(ctx, in)
		}
	}
	if in.State == nil || err != nil {
		return err
	}
	proven := holders
	if pin.Follows(in.Pod) {
		nodes, err = p.withRanges(ctx, in, holders, nodes, dryRun)
	} else {
		proven, err = p.proven(ctx, in, holders)
	}
	if err != nil {
		return err
	}
	name := in.Pod.Name
	if claimed := pin.NewerHolder(in.State, name, holders); claimed != pin.NewerHolder(in.State, name, proven) {
		log.FromContext(ctx).Info("Reservation is not followed, because this replica has not seen the last life of the pod on its node", "node", claimed)
	}
	*in = pin.Restored(*in, holders, proven, nodes)
	return nil
}

// withRanges returns the nodes with what the NodeNetwork gives them, if the address of a pod that follows is of no node without it.
func (p *Planner) withRanges(ctx context.Context, in *pin.Input, holders []pin.Holder, nodes map[string]*corev1.Node, dryRun bool) (map[string]*corev1.Node, error) {
	if dryRun || len(holders) == 0 || pin.AddressHome(in.State.Status.PodStates[in.Pod.Name], holders, nodes) != nil {
		return nodes, nil
	}
	return cluster.WithRanges(ctx, p.Live, nodes)
}

// served returns an error for a pod that asks to return, while the kind of the records is absent. On
// another node the pod would lose its address, and no record would tell it. Only where no state is
// stored, the API server is asked.
func (p *Planner) served(ctx context.Context, in *pin.Input) error {
	stored, asks := in.State != nil && in.State.UID != "", in.State != nil || in.Retains
	if stored || !asks {
		return nil
	}
	served, err := cluster.Served(ctx, p.LiveProven, cluster.CRDs[0])
	if served || err != nil {
		return err
	}
	return fmt.Errorf("CRD %s is missing, so that the node of the pod is unknown; remedy: kubectl apply --server-side -k deploy/crds: %w",
		cluster.CRDs[0], creation.ErrEssential)
}

// newestState returns the state of the pod's owner, from the cache where that suffices. A
// state that the cache shows exists, so that reads of it are few, however many pods ask.
func (p *Planner) newestState(ctx context.Context, pod *corev1.Pod, cached *appsv1beta1.PersistentPodState, holders []pin.Holder) (*appsv1beta1.PersistentPodState, error) {
	if cached == nil {
		state, err := p.requestedState(ctx, pod)
		if state == nil && err == nil && len(holders) > 0 {
			return p.listedState(ctx, pod) // the pod existed before, and may be recorded
		}
		return state, err
	}
	unsure := pin.RecordedNode(cached, pod.Name) == "" || pin.NewerHolder(cached, pod.Name, holders) != "" || pin.Releases(cached, pod.Name)
	if unsure {
		return liveState(ctx, p.LiveProven, cached)
	}
	return cached, nil
}

// cachedState returns the state of the pod's owner as the cache shows it, or as it will be
// generated; nil where the cache shows neither.
func (p *Planner) cachedState(ctx context.Context, pod *corev1.Pod, cached *appsv1beta1.PersistentPodState) *appsv1beta1.PersistentPodState {
	if cached != nil {
		return cached
	}
	set := p.Workloads.CachedOwner(ctx, pod)
	if set == nil {
		return nil
	}
	return pin.Requested(pod, set, workloads.StatefulSets, p.namespaceAnnotations(ctx, pod.Namespace, true))
}

// liveState reads a state from the API server; nil when it was deleted in between. The
// other replica may have written it a moment ago.
func liveState(ctx context.Context, reader client.Reader, s *appsv1beta1.PersistentPodState) (*appsv1beta1.PersistentPodState, error) {
	var live appsv1beta1.PersistentPodState
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(s), &live); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a state that does not exist is an answer
	case err != nil:
		return nil, fmt.Errorf("get PersistentPodState %s: %w", s.Name, err)
	}
	return &live, nil
}

// requestedState returns the state that the pod's owner asks for by annotation, where the
// cache has none. It may have been generated a moment ago; or it is returned as it will be
// generated, because the first pods of a workload are faster than the generation.
func (p *Planner) requestedState(ctx context.Context, pod *corev1.Pod) (*appsv1beta1.PersistentPodState, error) {
	owner, kind, err := p.Workloads.Owner(ctx, pod, p.Clock.Now())
	if owner == nil || err != nil {
		return nil, err
	}
	requested := pin.Requested(pod, owner, kind, p.namespaceAnnotations(ctx, pod.Namespace, true))
	if requested == nil {
		return nil, nil //nolint:nilnil // the owner does not ask for a state
	}
	live, err := liveState(ctx, p.LiveProven, requested)
	if live == nil || pin.TargetOf(live) != pin.TargetOf(requested) {
		return requested, err
	}
	return live, err
}

// listedState returns the state in force for the pod's owner, as the API server has it.
func (p *Planner) listedState(ctx context.Context, pod *corev1.Pod) (*appsv1beta1.PersistentPodState, error) {
	reader := p.Live
	if p.Workloads.CachedOwner(ctx, pod) != nil || p.Workloads.Seen(pod) {
		reader = p.LiveProven
	}
	owner, _ := workload.OwnerOf(pod)
	states, err := cluster.LiveStatesOf(ctx, reader, p.Cached, pod.Namespace, owner)
	return pin.Choose(states), err
}

// Recorded returns the nodes that the state in force records for the pods of an owner.
func Recorded(ctx context.Context, cached client.Reader, namespace string, owner workload.Target) (map[string]string, error) {
	states, err := cluster.StatesOf(ctx, cached, namespace, owner)
	state := pin.Choose(states)
	if state == nil || err != nil {
		return nil, err
	}
	nodes := map[string]string{}
	for pod := range state.Status.PodStates {
		nodes[pod] = pin.RecordedNode(state, pod)
	}
	return nodes, nil
}
