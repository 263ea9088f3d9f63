package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ReservationsOf returns the IPReservations of a pod's name, on whatever node.
func ReservationsOf(ctx context.Context, r client.Reader, pod client.ObjectKey) ([]limpetv1alpha1.IPReservation, error) {
	var list limpetv1alpha1.IPReservationList
	err := r.List(ctx, &list, client.InNamespace(pod.Namespace),
		client.MatchingFields{indexPod: pod.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list IPReservations of %s: %w", pod, err)
	}
	return list.Items, nil
}

// PoolsOf returns the NodeIPPools of a node.
func PoolsOf(ctx context.Context, r client.Reader, node string) ([]limpetv1alpha1.NodeIPPool, error) {
	var list limpetv1alpha1.NodeIPPoolList
	err := r.List(ctx, &list, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list NodeIPPools of %s: %w", node, err)
	}
	return list.Items, nil
}
