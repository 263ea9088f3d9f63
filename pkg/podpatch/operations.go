package podpatch

import (
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// Operations returns a patch as JSON patch operations. They name only what changes, so
// that fields of a newer Kubernetes survive.
func Operations(pod *corev1.Pod, p Patch) []jsonpatch.Operation {
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

func annotationOperations(pod *corev1.Pod, p Patch) []jsonpatch.Operation {
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

func affinityOperation(pod *corev1.Pod, p Patch) jsonpatch.Operation {
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

// require adds requirements to every term, since terms are alternatives. A term without
// any expression matches no node, and stays as it is.
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
