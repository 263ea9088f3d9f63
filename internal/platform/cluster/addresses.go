package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ReservationsOf returns the IPReservations of a pod's name that the agents of their nodes
// wrote, on whatever node.
func ReservationsOf(ctx context.Context, r client.Reader, pod client.ObjectKey) ([]limpetv1alpha1.IPReservation, error) {
	held, _, err := HeldOn(ctx, r, pod)
	return held, err
}

// HeldOn returns the same, and the nodes that exist by their names.
func HeldOn(ctx context.Context, r client.Reader, pod client.ObjectKey) ([]limpetv1alpha1.IPReservation, map[string]*corev1.Node, error) {
	var list limpetv1alpha1.IPReservationList
	err := r.List(ctx, &list, client.InNamespace(pod.Namespace),
		client.MatchingFields{indexPod: pod.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, nil, fmt.Errorf("list IPReservations of %s: %w", pod, err)
	}
	return believed(ctx, r, list.Items, reservationBy)
}

// maxPools bounds the NodeIPPools of a node that are read. A node has one of each network.
const maxPools = 32

// PoolsOf returns the NodeIPPools of a node that its agent wrote, the first maxPools by name.
func PoolsOf(ctx context.Context, r client.Reader, node string) ([]limpetv1alpha1.NodeIPPool, error) {
	var list limpetv1alpha1.NodeIPPoolList
	err := r.List(ctx, &list, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list NodeIPPools of %s: %w", node, err)
	}
	if len(list.Items) > maxPools {
		slices.SortFunc(list.Items, func(a, b limpetv1alpha1.NodeIPPool) int { return strings.Compare(a.Name, b.Name) })
		list.Items = list.Items[:maxPools]
	}
	pools, _, err := believed(ctx, r, list.Items, poolBy)
	return pools, err
}

// Pools returns the NodeIPPools of all nodes that their agents wrote.
func Pools(ctx context.Context, r client.Reader) ([]limpetv1alpha1.NodeIPPool, error) {
	var list limpetv1alpha1.NodeIPPoolList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeIPPools: %w", err)
	}
	pools, _, err := believed(ctx, r, list.Items, poolBy)
	return pools, err
}

func reservationBy(r *limpetv1alpha1.IPReservation) (node string, owners []metav1.OwnerReference) {
	return r.Status.Node, r.OwnerReferences
}

func poolBy(p *limpetv1alpha1.NodeIPPool) (node string, owners []metav1.OwnerReference) {
	return p.Status.Node, p.OwnerReferences
}

// Disbelieved returns the IPReservations and NodeIPPools that no reader believes.
func Disbelieved(ctx context.Context, r client.Reader) ([]client.Object, error) {
	var reservations limpetv1alpha1.IPReservationList
	var pools limpetv1alpha1.NodeIPPoolList
	for _, list := range []client.ObjectList{&reservations, &pools} {
		if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	all, err := Nodes(ctx, r)
	if err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for _, node := range all {
		nodes[node.Name] = node
	}
	var found []client.Object
	for i := range reservations.Items {
		if name, owners := reservationBy(&reservations.Items[i]); !Believed(nodes[name], name, owners) {
			found = append(found, &reservations.Items[i])
		}
	}
	for i := range pools.Items {
		if name, owners := poolBy(&pools.Items[i]); !Believed(nodes[name], name, owners) {
			found = append(found, &pools.Items[i])
		}
	}
	return found, nil
}
