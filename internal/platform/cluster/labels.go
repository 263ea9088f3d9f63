package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mostLabels is how many different sets of labels are shared at a time.
	mostLabels = 4096
	// longestLabels is the length of the labels that the cache keeps of one object, keys included.
	// Users may write 1 MiB onto each pod. No pod has so many for a purpose; a pod counts
	// as one without those that are left out.
	longestLabels = 8 << 10
	// longestShared is the length of the labels that objects share: longer ones would make much
	// of what is kept for sharing alone.
	longestShared = 2 << 10
)

// SharedLabels keeps the labels of an object, for selectors. Objects with the same labels, such
// as the pods of a ReplicaSet, share one map; all share the text of keys and values. The name of
// the object as a value is not shared: a StatefulSet labels each pod with it.
func SharedLabels[T client.Object]() Part[T] {
	all := &shared[map[string]string]{most: mostLabels}
	return func(from, to T) {
		if to.GetLabels() == nil { // otherwise the part of another feature was first
			to.SetLabels(sharedLabels(all, boundedLabels(from.GetLabels()), from.GetName()))
		}
	}
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

// sharedLabels returns the one map of labels with their content.
func sharedLabels(all *shared[map[string]string], labels map[string]string, name string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	var key strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%s=%s,", k, labels[k]) // neither a key nor a value can have these signs
	}
	if key.Len() > longestShared {
		return maps.Clone(labels)
	}
	return all.of(&key, func() map[string]string {
		kept := make(map[string]string, len(labels))
		for k, v := range labels {
			if v != name {
				v = unique.Make(v).Value()
			}
			kept[unique.Make(k).Value()] = v
		}
		return kept
	})
}
