// Package controller holds one reconciler per file. Each gathers what pin decides from
// and applies what it decided; no policy is decided here.
package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// IndexTarget is the cache index of PersistentPodStates by target, and of pods by the
// workload that made them; its keys are pin.Target strings. Pods of every kind that is not
// unstable are in it, since it may be named at any time.
const IndexTarget = "limpet.target"

// IndexPod is the cache index of IPReservations by the name of the pod.
const IndexPod = "limpet.pod"

// IndexNode is the cache index of NodeIPPools by the name of the node.
const IndexNode = "limpet.node"

// IndexPinned is the cache index of pods that wait for their place by the
// PersistentPodState that pinned them.
const IndexPinned = "limpet.pinned"

// IndexIP is the cache index of pods by their addresses.
const IndexIP = "limpet.ip"

// AddIndexes adds the indexes that reconcilers and webhooks look up by, which also makes
// the cache hold these kinds from its start.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	byTarget := func(o client.Object) []string {
		return []string{pin.TargetOf(o.(*appsv1beta1.PersistentPodState)).String()}
	}
	byOwner := func(o client.Object) []string {
		if owner, ok := pin.OwnerOf(o.(*corev1.Pod)); ok && !owner.Unstable() {
			return []string{owner.String()}
		}
		return nil
	}
	byPod := func(o client.Object) []string { return []string{o.(*limpetv1alpha1.IPReservation).Status.Pod} }
	byNode := func(o client.Object) []string { return []string{o.(*limpetv1alpha1.NodeIPPool).Status.Node} }
	byIP := func(o client.Object) []string {
		pod := o.(*corev1.Pod)
		if ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; ended {
			return nil
		}
		return strings.FieldsFunc(pin.Addresses(pod), func(r rune) bool { return r == ',' })
	}
	byState := func(o client.Object) []string {
		if by := pin.PinnedBy(o.(*corev1.Pod)); by != "" {
			return []string{by}
		}
		return nil
	}
	err := errors.Join(
		indexer.IndexField(ctx, &appsv1beta1.PersistentPodState{}, IndexTarget, byTarget),
		indexer.IndexField(ctx, &corev1.Pod{}, IndexTarget, byOwner),
		indexer.IndexField(ctx, &corev1.Pod{}, IndexIP, byIP),
		indexer.IndexField(ctx, &corev1.Pod{}, IndexPinned, byState),
		indexer.IndexField(ctx, &limpetv1alpha1.IPReservation{}, IndexPod, byPod),
		indexer.IndexField(ctx, &limpetv1alpha1.NodeIPPool{}, IndexNode, byNode),
	)
	if err != nil {
		return fmt.Errorf("index cache: %w", err)
	}
	return nil
}

// StatesOf returns the PersistentPodStates of a target. They are the cache's own
// objects: callers must not change them.
func StatesOf(ctx context.Context, r client.Reader, namespace string, t pin.Target) ([]appsv1beta1.PersistentPodState, error) {
	var list appsv1beta1.PersistentPodStateList
	err := r.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingFields{IndexTarget: t.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list PersistentPodStates of %s: %w", t, err)
	}
	return list.Items, nil
}

// ReservationsOf returns what the nodes hold for a pod's name. They are the cache's own
// objects: callers must not change them.
func ReservationsOf(ctx context.Context, r client.Reader, pod client.ObjectKey) ([]limpetv1alpha1.IPReservation, error) {
	var list limpetv1alpha1.IPReservationList
	err := r.List(ctx, &list, client.InNamespace(pod.Namespace),
		client.MatchingFields{IndexPod: pod.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list IPReservations of %s: %w", pod, err)
	}
	return list.Items, nil
}

// PoolsOf returns the pools of a node. They are the cache's own objects: callers must not
// change them.
func PoolsOf(ctx context.Context, r client.Reader, node string) ([]limpetv1alpha1.NodeIPPool, error) {
	var list limpetv1alpha1.NodeIPPoolList
	err := r.List(ctx, &list, client.MatchingFields{IndexNode: node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list NodeIPPools of %s: %w", node, err)
	}
	return list.Items, nil
}

// TakenBy returns another pod that has one of some addresses, which have commas between
// them; "" when there is none.
func TakenBy(ctx context.Context, r client.Reader, pod *corev1.Pod, ips string) (string, error) {
	for ip := range strings.SplitSeq(ips, ",") {
		var list corev1.PodList
		if err := r.List(ctx, &list, client.MatchingFields{IndexIP: ip}, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list pods with address %s: %w", ip, err)
		}
		for i := range list.Items {
			if o := client.ObjectKeyFromObject(&list.Items[i]); o != client.ObjectKeyFromObject(pod) {
				return o.String(), nil
			}
		}
	}
	return "", nil
}
