package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mostRequests is how many different requests are shared at a time. A user may create pods
	// with any number of them.
	mostRequests = 4096
	// mostResources is how many resources of a pod the cache keeps. A pod that asks for more asks
	// for manyResources in their place, which no node has.
	mostResources = 64
	// mostShared is how many resources the lists have that pods share.
	mostShared    = 16
	manyResources = corev1.ResourceName("limpet.dev/more-resources")
)

// Requests keeps what a pod asks of its node. The sum over all containers takes the place
// of the pod's overhead, which is part of the sum. Pods that ask for the same share one
// list, so that 150 000 pods cost little more than their templates.
func Requests() Part[*corev1.Pod] {
	all := &shared[corev1.ResourceList]{most: mostRequests}
	return func(from, to *corev1.Pod) {
		if to.Spec.Overhead != nil {
			return // the part of another feature was first
		}
		to.Spec.Overhead = sharedRequests(all, boundedRequests(resourcehelper.PodRequests(from, resourcehelper.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})))
	}
}

// boundedRequests keeps the first resources by name of a pod that asks for very many: users may
// write 1 MiB of them.
func boundedRequests(list corev1.ResourceList) corev1.ResourceList {
	if len(list) <= mostResources {
		return list
	}
	kept := corev1.ResourceList{manyResources: *resource.NewQuantity(1, resource.DecimalSI)}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if asked, ok := list[name]; ok {
			kept[name] = asked
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if len(kept) < mostResources {
			kept[name] = list[name]
		}
	}
	return kept
}

// sharedRequests returns the one list with its content.
func sharedRequests(all *shared[corev1.ResourceList], list corev1.ResourceList) corev1.ResourceList {
	switch {
	case len(list) == 0:
		return nil
	case len(list) > mostShared:
		return list
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		fmt.Fprintf(&key, "%s=%v,", name, list[name])
	}
	return all.of(&key, func() corev1.ResourceList { return list })
}

// PodsByNode indexes the pods that take room on a node, by the name of that node: the pods
// that are bound to it, and the pods that are nominated to it.
func PodsByNode() Index {
	return By(indexNode, func(pod *corev1.Pod) []string {
		name := pod.Spec.NodeName
		if name == "" {
			name = pod.Status.NominatedNodeName
		}
		if name == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return nil
		}
		return []string{name}
	}).Everywhere()
}

// PodsOn returns the pods that take room on a node, or are nominated to it.
func PodsOn(ctx context.Context, r client.Reader, node string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods on node %s: %w", node, err)
	}
	return pods.Items, nil
}
