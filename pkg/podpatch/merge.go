package podpatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ErrContradiction is returned for two patches that cannot both be applied.
var ErrContradiction = errors.New("planners contradict each other")

// Merge adds a later planner's patch to the merged patch of earlier planners.
func Merge(a, b Patch) (Patch, error) {
	out := Patch{
		Annotations: maps.Clone(a.Annotations),
		Drop:        slices.Concat(a.Drop, b.Drop),
		Required:    slices.Concat(a.Required, b.Required),
		Preferred:   slices.Concat(a.Preferred, b.Preferred),
		Gates:       slices.Concat(a.Gates, b.Gates),
	}
	for key, value := range b.Annotations {
		if before, ok := a.Annotations[key]; ok && before != value {
			return a, fmt.Errorf("annotation %s: %w", key, ErrContradiction)
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = value
	}
	for _, key := range out.Drop {
		if _, set := out.Annotations[key]; set {
			return a, fmt.Errorf("annotation %s: %w", key, ErrContradiction)
		}
	}
	for _, r := range b.Required {
		if slices.ContainsFunc(a.Required, func(q corev1.NodeSelectorRequirement) bool { return disjoint(q, r) }) {
			return a, fmt.Errorf("required node label %s: %w", r.Key, ErrContradiction)
		}
	}
	return out, nil
}

func disjoint(a, b corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == corev1.NodeSelectorOpIn && b.Operator == corev1.NodeSelectorOpIn &&
		!slices.ContainsFunc(a.Values, func(v string) bool { return slices.Contains(b.Values, v) })
}
