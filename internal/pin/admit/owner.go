package admit

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ownerFor returns the value that the annotation for the owner gets, and whether it gets one. A pod that names no other owner
// has the first IPAMClaim that its networks refer to, unless another pod has it.
func (p *Planner) ownerFor(ctx context.Context, facts creation.Facts) (value string, has bool, err error) {
	value, asks := facts.Pod.Annotations[reservation.OwnerAnnotation]
	if claim := creation.Claim(facts.Pod); claim != "" && (!asks || reservation.ClaimOf(value) != "") {
		of, owned := workload.OwnerOf(facts.Pod)
		taken, err := p.taken(ctx, facts, reservation.ClaimOwner(claim))
		if taken || err != nil || owned && p.Workloads.Kinds().Contains(of) {
			return pin.AskedOwner(facts.Pod.Annotations), asks, err
		}
		return reservation.ClaimOwner(claim), true, nil
	}
	if asks {
		value, err = p.owner(ctx, facts)
	}
	return value, asks, err
}

// owner returns the value that the annotation for the owner gets: the completed name, or what was asked for where the pod
// gets the address of its own name. These are pods whose controller does not exist, or gives its pods their names again,
// and a pod whose owner has a living one.
func (p *Planner) owner(ctx context.Context, facts creation.Facts) (string, error) {
	asked := pin.AskedOwner(facts.Pod.Annotations)
	chain, found, err := p.controllers(ctx, facts)
	if err != nil {
		return "", fmt.Errorf("read the controllers of the pod: %w", err)
	}
	returns := len(chain) > 0 && p.Workloads.Kinds().Contains(chain[0].Target)
	name := pin.CompleteOwner(facts.Pod, chain)
	if !found || returns || name == "" || facts.Pod.Spec.HostNetwork {
		return asked, nil
	}
	taken, err := p.taken(ctx, facts, name)
	if taken || err != nil {
		return asked, err
	}
	return name, nil
}

// controllers returns the controllers of a pod, and whether the nearest exists with the UID that the pod names. One that was
// just made is not in the cache yet. Of a kind that the controller cannot read, the pod is believed.
func (p *Planner) controllers(ctx context.Context, facts creation.Facts) (chain []workload.Owner, found bool, err error) {
	found = true
	chain, err = workload.Chain(facts.Pod, func(o workload.Owner) (metav1.Object, error) {
		object, err := cluster.Intermediate(ctx, p.Cached, facts.Pod.Namespace, o, client.UnsafeDisableDeepCopy)
		if object == nil && err == nil && !facts.DryRun {
			object, err = cluster.Intermediate(ctx, p.Live, facts.Pod.Namespace, o)
		}
		found = object != nil
		return object, err
	})
	switch {
	case err != nil || len(chain) == 0:
	case !chain[0].Intermediate():
		found, err = p.ownerExists(ctx, chain[0].Target, facts)
	case len(chain) > 1 && chain[1].Kind == "Deployment":
		found, err = p.deploymentExists(ctx, chain[1], facts)
	}
	return chain, found, err
}

// deploymentExists reports whether a Deployment exists with the UID that a ReplicaSet names.
func (p *Planner) deploymentExists(ctx context.Context, owner workload.Owner, facts creation.Facts) (bool, error) {
	readers := []client.Reader{p.Cached, p.Live}
	if facts.DryRun {
		readers = readers[:1]
	}
	for _, r := range readers {
		var d appsv1.Deployment
		err := r.Get(ctx, client.ObjectKey{Namespace: facts.Pod.Namespace, Name: owner.Name}, &d)
		if d.UID == owner.UID || client.IgnoreNotFound(err) != nil {
			return err == nil, client.IgnoreNotFound(err)
		}
	}
	return false, nil
}

// taken reports whether an owner has a living pod. The cache may be behind, and a Deployment makes its next pod in the
// moment in which the deletion of the last one begins.
func (p *Planner) taken(ctx context.Context, facts creation.Facts, name string) (bool, error) {
	pods, err := cluster.PodsOfOwner(ctx, p.Cached, facts.Pod.Namespace, name)
	if err != nil {
		return false, err
	}
	for i := range pods {
		if !workload.Alive(&pods[i]) {
			continue
		}
		live := pods[i]
		if !facts.DryRun {
			live = corev1.Pod{}
			err = p.LiveProven.Get(ctx, client.ObjectKeyFromObject(&pods[i]), &live)
		}
		switch {
		case err == nil && live.UID == pods[i].UID && workload.Alive(&live):
			return true, nil
		case err != nil && !apierrors.IsNotFound(err):
			return false, fmt.Errorf("get pod %s: %w", pods[i].Name, err)
		}
	}
	return false, nil
}

// gatherOwner gathers where a pod of an owner may return: to the node that holds the owner's addresses, if this replica has
// seen the last pod of the owner there.
func (p *Planner) gatherOwner(ctx context.Context, in *pin.Input, name string) error {
	key := client.ObjectKey{Namespace: in.Pod.Namespace, Name: name}
	held, nodes, err := cluster.HeldOn(ctx, p.Cached, key)
	if err != nil || len(held) == 0 {
		return err
	}
	last, err := p.Sightings.LastOf(ctx, p.Cached, key)
	if err != nil {
		return err
	}
	holders := pin.Proven(pin.Holders(held, nodes, in.Now), appsv1beta1.PodState{}, (*pin.Life)(last))
	in.State, in.Node = pin.HomeOfOwner(in.Pod, holders, nodes)
	in.Holds = in.State != nil
	return nil
}
