package podpatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// ErrContradiction is returned for two patches that cannot both be applied.
var ErrContradiction = errors.New("planners contradict each other")

// Merge adds a later planner's patch to the merged patch of earlier planners.
func Merge(a, b Patch) (Patch, error) {
	out := Patch{
		Drop:           slices.Concat(a.Drop, b.Drop),
		Required:       slices.Concat(a.Required, b.Required),
		RequiredFields: slices.Concat(a.RequiredFields, b.RequiredFields),
		Preferred:      slices.Concat(a.Preferred, b.Preferred),
		Tolerations:    slices.Concat(a.Tolerations, b.Tolerations),
		Gates:          slices.Concat(a.Gates, b.Gates),
		ReadinessGates: slices.Concat(a.ReadinessGates, b.ReadinessGates),
	}
	var err error
	if out.Annotations, err = mergeMaps("annotation", a.Annotations, b.Annotations); err != nil {
		return a, err
	}
	if out.Labels, err = mergeMaps("label", a.Labels, b.Labels); err != nil {
		return a, err
	}
	if out.Strategic, err = mergeStrategic(a.Strategic, b.Strategic); err != nil {
		return a, err
	}
	for _, key := range out.Drop {
		if _, set := out.Annotations[key]; set {
			return a, fmt.Errorf("annotation %s: %w", key, ErrContradiction)
		}
	}
	for _, both := range [][2][]corev1.NodeSelectorRequirement{{a.Required, b.Required}, {a.RequiredFields, b.RequiredFields}} {
		for _, r := range both[1] {
			if slices.ContainsFunc(both[0], func(q corev1.NodeSelectorRequirement) bool { return disjoint(q, r) }) {
				return a, fmt.Errorf("required node label or field %s: %w", r.Key, ErrContradiction)
			}
		}
	}
	return out, nil
}

func disjoint(a, b corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == corev1.NodeSelectorOpIn && b.Operator == corev1.NodeSelectorOpIn &&
		!slices.ContainsFunc(a.Values, func(v string) bool { return slices.Contains(b.Values, v) })
}

// mergeMaps joins two maps, and refuses two values of one key.
func mergeMaps(what string, a, b map[string]string) (map[string]string, error) {
	out := maps.Clone(a)
	for key, value := range b {
		if before, ok := a[key]; ok && before != value {
			return a, fmt.Errorf("%s %s: %w", what, key, ErrContradiction)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// mergeStrategic joins two strategic merge patches, and refuses two values of one field.
func mergeStrategic(a, b []byte) ([]byte, error) {
	if a == nil || b == nil {
		return slices.Concat(a, b), nil
	}
	var left, right map[string]any
	if err := errors.Join(json.Unmarshal(a, &left), json.Unmarshal(b, &right)); err != nil {
		return a, fmt.Errorf("decode strategic merge patch: %w", err)
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(&corev1.Pod{})
	if err != nil {
		return a, fmt.Errorf("read schema of pods: %w", err)
	}
	conflicts, err := strategicpatch.MergingMapsHaveConflicts(left, right, schema)
	switch {
	case err != nil:
		return a, fmt.Errorf("compare strategic merge patches: %w", err)
	case conflicts:
		return a, fmt.Errorf("strategic merge patch: %w", ErrContradiction)
	}
	merged, err := strategicpatch.MergeStrategicMergeMapPatchUsingLookupPatchMeta(schema, left, right)
	if err != nil {
		return a, fmt.Errorf("merge strategic merge patches: %w", err)
	}
	return json.Marshal(merged)
}
