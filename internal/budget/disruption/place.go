package disruption

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// place gathers whether the address of a pod would be held, and whether its node could take
// the rebuilt pod. Addresses belong to nodes, so that no other node will do.
func (j *Judge) place(ctx context.Context, pod *corev1.Pod) (budget.Place, error) {
	request, _ := reservation.ParseRetentionRequest(pod.Annotations, j.maxReservation) // the webhook of creations has warned
	if request.Retain <= 0 || pod.Spec.NodeName == "" || pod.Spec.HostNetwork {
		return budget.Place{}, nil
	}
	place := budget.Place{Asked: true}
	name := pod.Spec.NodeName
	pools, err := cluster.PoolsOf(ctx, j.reader.cached, name)
	if err != nil {
		return place, err
	}
	if len(pools) == 0 {
		place.Address = fmt.Sprintf("no agent of Limpet shows a pool of addresses on node %s", name)
	}
	place.Node, err = j.obstacle(ctx, pod, name)
	return place, err
}

// obstacle says why a node could not take a pod again; "" when it can.
func (j *Judge) obstacle(ctx context.Context, pod *corev1.Pod, name string) (string, error) {
	node, err := cluster.Node(ctx, j.reader.cached, name)
	if err != nil {
		return "", err
	}
	if reason, message := fit.Obstacle(node, pod); reason != "" {
		return fmt.Sprintf("node %s %s", name, message), nil
	}
	if !fit.Admits(pod, node) {
		return fmt.Sprintf("node %s has not the labels that the pod asks for", name), nil
	}
	others, err := cluster.PodsOn(ctx, j.reader.cached, name)
	if err != nil {
		return "", err
	}
	others = slices.DeleteFunc(others, func(o corev1.Pod) bool { return o.UID == pod.UID })
	if lacks := fit.Shortage(node, pod, others); lacks != "" {
		return fmt.Sprintf("node %s has not enough %s left", name, lacks), nil
	}
	return "", nil
}
