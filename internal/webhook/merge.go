package webhook

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/pkg/api/podpatch"
)

// errContradiction is returned when two planners want what cannot both be.
var errContradiction = errors.New("planners contradict each other")

// merge adds what a later planner wants to what earlier ones want.
func merge(a, b podpatch.Patch) (podpatch.Patch, error) {
	out := podpatch.Patch{
		Annotations: maps.Clone(a.Annotations),
		Drop:        slices.Concat(a.Drop, b.Drop),
		Required:    slices.Concat(a.Required, b.Required),
		Preferred:   slices.Concat(a.Preferred, b.Preferred),
		Gates:       slices.Concat(a.Gates, b.Gates),
	}
	for key, value := range b.Annotations {
		if before, ok := a.Annotations[key]; ok && before != value {
			return a, fmt.Errorf("annotation %s: %w", key, errContradiction)
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = value
	}
	for _, key := range out.Drop {
		if _, set := out.Annotations[key]; set {
			return a, fmt.Errorf("annotation %s: %w", key, errContradiction)
		}
	}
	for _, r := range b.Required {
		if slices.ContainsFunc(a.Required, func(q corev1.NodeSelectorRequirement) bool { return disjoint(q, r) }) {
			return a, fmt.Errorf("required node label %s: %w", r.Key, errContradiction)
		}
	}
	return out, nil
}

func disjoint(a, b corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == corev1.NodeSelectorOpIn && b.Operator == corev1.NodeSelectorOpIn &&
		!slices.ContainsFunc(a.Values, func(v string) bool { return slices.Contains(b.Values, v) })
}

// operations turns a patch into JSON patch operations that name only what changes, so
// that fields of a newer Kubernetes survive.
func operations(pod *corev1.Pod, p podpatch.Patch) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	if len(p.Annotations)+len(p.Drop) > 0 {
		ops = append(ops, annotationOperations(pod, p)...)
	}
	if len(p.Required)+len(p.Preferred) > 0 {
		ops = append(ops, affinityOperation(pod, p))
	}
	if len(p.Gates) > 0 {
		gates := slices.Clone(pod.Spec.SchedulingGates)
		for _, name := range p.Gates {
			if gate := (corev1.PodSchedulingGate{Name: name}); !slices.Contains(gates, gate) { // twice would be refused
				gates = append(gates, gate)
			}
		}
		ops = append(ops, jsonpatch.NewOperation("add", "/spec/schedulingGates", gates))
	}
	return ops
}

func annotationOperations(pod *corev1.Pod, p podpatch.Patch) []jsonpatch.Operation {
	if len(pod.Annotations) == 0 && len(p.Annotations) > 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/annotations", p.Annotations)}
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var ops []jsonpatch.Operation
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		ops = append(ops, jsonpatch.NewOperation("add", "/metadata/annotations/"+escape.Replace(key), p.Annotations[key]))
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(p.Drop))) {
		if _, there := pod.Annotations[key]; there { // to remove another would be an error
			ops = append(ops, jsonpatch.NewOperation("remove", "/metadata/annotations/"+escape.Replace(key), nil))
		}
	}
	return ops
}

func affinityOperation(pod *corev1.Pod, p podpatch.Patch) jsonpatch.Operation {
	node := &corev1.NodeAffinity{}
	if pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil {
		node = pod.Spec.Affinity.NodeAffinity.DeepCopy()
	}
	if len(p.Required) > 0 {
		node.RequiredDuringSchedulingIgnoredDuringExecution = require(
			node.RequiredDuringSchedulingIgnoredDuringExecution, p.Required)
	}
	node.PreferredDuringSchedulingIgnoredDuringExecution = append(
		node.PreferredDuringSchedulingIgnoredDuringExecution, p.Preferred...)
	if pod.Spec.Affinity == nil {
		return jsonpatch.NewOperation("add", "/spec/affinity", &corev1.Affinity{NodeAffinity: node})
	}
	return jsonpatch.NewOperation("add", "/spec/affinity/nodeAffinity", node)
}

// require ANDs requirements into every term, since terms are alternatives. A term
// without any expression matches no node, and must not begin to match one.
func require(s *corev1.NodeSelector, reqs []corev1.NodeSelectorRequirement) *corev1.NodeSelector {
	if s == nil {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: reqs}}}
	}
	for i := range s.NodeSelectorTerms {
		if t := &s.NodeSelectorTerms[i]; len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = append(t.MatchExpressions, reqs...)
		}
	}
	return s
}
