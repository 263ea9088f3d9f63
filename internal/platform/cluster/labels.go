package cluster

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// longestLabels is the length of the labels that the cache keeps of one object, keys included. Users may write 1 MiB onto
// each pod. No pod has so many for a purpose; a pod counts as one without those that are left out.
const longestLabels = 8 << 10

// SharedLabels keeps the labels of an object, for selectors. Packed pods of one template share them.
func SharedLabels[T client.Object]() Part[T] {
	return func(from, to T) { to.SetLabels(boundedLabels(from.GetLabels())) }
}

// boundedLabels keeps the shortest labels of an object that has very long ones together.
func boundedLabels(labels map[string]string) map[string]string {
	length := 0
	for k, v := range labels {
		length += len(k) + len(v)
	}
	if length <= longestLabels {
		return labels
	}
	return fitting(labels, slices.Collect(maps.Keys(labels)), longestLabels)
}
