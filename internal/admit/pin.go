package admit

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
)

// Pin is the planner that brings rebuilt pods back to their nodes.
type Pin struct {
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

var _ Planner = (*Pin)(nil)

// Name is the planner's name.
func (p *Pin) Name() string { return "pin" }

// Plan gathers what pin.Plan decides from, and returns its patch.
func (p *Pin) Plan(ctx context.Context, facts Facts) (Plan, error) {
	owner, owned := workload.OwnerOf(facts.Pod)
	if !owned {
		return Plan{}, nil
	}
	in := pin.Input{Pod: facts.Pod, Retains: facts.Retention.Retain > 0, Now: facts.Now}
	if p.Workloads.Kinds().Contains(owner) {
		exists, err := p.ownerExists(ctx, owner, facts)
		if err == nil && exists {
			err = p.gather(ctx, &in, owner, facts.DryRun)
		}
		if err != nil {
			return Plan{}, err
		}
	}
	decision := pin.Plan(in)
	log.FromContext(ctx).V(1).Info("Planned pin", "reason", decision.Reason, "message", decision.Message)
	plan := Plan{Patch: pin.Sealed(decision.Patch), Instead: pin.Overruled()}
	if decision.Verdict == pin.Pin {
		plan.Node = pin.RecordedNode(in.State, facts.Pod.Name)
	}
	return plan, nil
}

// ownerExists reports whether the StatefulSet that controls the pod exists, with the UID that
// the pod names. A client that asks about pods of others does not know that UID, and learns
// nothing. The garbage collector deletes a pod whose owner does not exist. A workload of
// another kind may be one that the controller cannot read.
func (p *Pin) ownerExists(ctx context.Context, owner workload.Target, facts Facts) (bool, error) {
	switch {
	case owner.Group != appsv1.GroupName:
		return true, nil
	case facts.DryRun:
		return p.Workloads.CachedOwner(ctx, facts.Pod) != nil, nil
	}
	set, _, err := p.Workloads.Owner(ctx, facts.Pod, facts.Now)
	return set != nil, err
}

func (p *Pin) gather(ctx context.Context, in *pin.Input, owner workload.Target, dryRun bool) error {
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
func (p *Pin) holders(ctx context.Context, pod *corev1.Pod) ([]pin.Holder, map[string]*corev1.Node, error) {
	held, nodes, err := cluster.HeldOn(ctx, p.Cached, client.ObjectKeyFromObject(pod))
	return pin.Holders(held, nodes, p.Clock.Now()), nodes, err
}

// proven returns the holders that may overrule the record of a pod, by what this replica has
// seen of the pod.
func (p *Pin) proven(ctx context.Context, in *pin.Input, holders []pin.Holder) ([]pin.Holder, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	last, err := p.Sightings.Last(ctx, p.Cached, client.ObjectKeyFromObject(in.Pod))
	if err != nil {
		return nil, err
	}
	return pin.Proven(holders, in.State.Status.PodStates[in.Pod.Name], (*pin.Life)(last)), nil
}
