package reconcile

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// addHomes adds the facts that tell where a pod returns: the reservations of its owner; or else the record of its workload, and the
// reservations of its name. They are read from caches. Only a workload of another kind than
// StatefulSet costs a request, and only where none of its pods was nominated a moment ago.
func (n *Nominator) addHomes(ctx context.Context, in *pin.GateInput) error {
	if name := reservation.OwnerName("", in.Pod.Annotations); name != "" {
		held, nodes, err := cluster.HeldOn(ctx, n.Client, client.ObjectKey{Namespace: in.Pod.Namespace, Name: name})
		for _, h := range pin.Holders(held, nodes, in.Now) {
			in.Owned, in.Homes = true, append(in.Homes, h.Node)
		}
		return err
	}
	target, ok := workload.OwnerOf(in.Pod)
	if !ok || target.Unstable() {
		return nil
	}
	if !n.Workloads.Kinds().Contains(target) {
		return n.Workloads.Ready(nil)
	}
	owner, kind, err := n.Workloads.RecentOwner(ctx, in.Pod, in.Now)
	if owner == nil || err != nil {
		return err
	}
	in.Owned = true
	states, err := cluster.StatesOf(ctx, n.Client, in.Pod.Namespace, target)
	if err != nil {
		return err
	}
	state := pin.Choose(states)
	if state == nil { // the webhook has planned with the state that is about to be generated
		namespace, err := namespaceAnnotations(ctx, n.Client, in.Pod.Namespace)
		if err != nil {
			return err
		}
		state = pin.Requested(in.Pod, owner, kind, namespace)
	}
	if in.Homes = pin.Homes(state, in.Pod.Name, nil); in.Asks() != "" {
		return nil
	}
	if pin.Follows(in.Pod) && state != nil {
		return n.addAddressHome(ctx, in, state.Status.PodStates[in.Pod.Name])
	}
	in.Homes, err = n.homesByAddress(ctx, in, state)
	return err
}

// addAddressHome adds the node whose ranges have the recorded addresses, and which holds them.
func (n *Nominator) addAddressHome(ctx context.Context, in *pin.GateInput, record appsv1beta1.PodState) error {
	held, nodes, err := cluster.HeldOn(ctx, n.Client, client.ObjectKeyFromObject(in.Pod))
	if err != nil || len(held) == 0 {
		return err
	}
	holders := pin.Holders(held, nodes, in.Now)
	home := pin.AddressHome(record, holders, nodes)
	if home == nil {
		if nodes, err = cluster.WithRanges(ctx, n.Workloads.Live, nodes); err != nil {
			return err
		}
		home = pin.AddressHome(record, holders, nodes)
	}
	if home != nil {
		in.Homes = append(in.Homes, home.Name)
	}
	return nil
}

// homesByAddress adds the node that holds the addresses of a later life than the recorded one.
func (n *Nominator) homesByAddress(ctx context.Context, in *pin.GateInput, state *appsv1beta1.PersistentPodState) ([]string, error) {
	held, nodes, err := cluster.HeldOn(ctx, n.Client, client.ObjectKeyFromObject(in.Pod))
	return pin.Homes(state, in.Pod.Name, pin.Holders(held, nodes, in.Now)), err
}
