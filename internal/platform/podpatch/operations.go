package podpatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Operations returns a patch as operations on the pod in raw, in JSON. They name only what
// changes, so that fields of a newer Kubernetes survive.
func Operations(raw []byte, p Patch) ([]jsonpatch.Operation, error) {
	ops, raw, err := strategicOperations(raw, p)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return nil, fmt.Errorf("decode pod: %w", err)
	}
	ops = append(ops, mapOperations("/metadata/annotations", pod.Annotations, p.Annotations, p.Drop)...)
	ops = append(ops, mapOperations("/metadata/labels", pod.Labels, p.Labels, nil)...)
	if len(p.Required)+len(p.RequiredFields)+len(p.Preferred) > 0 {
		ops = append(ops, affinityOperation(pod, p))
	}
	if missing := missingOf(pod.Spec.Tolerations, p.Tolerations, equalToleration); len(missing) > 0 {
		ops = append(ops, jsonpatch.NewOperation("add", "/spec/tolerations", slices.Concat(pod.Spec.Tolerations, missing)))
	}
	var gates []corev1.PodSchedulingGate
	for _, name := range p.Gates {
		gates = append(gates, corev1.PodSchedulingGate{Name: name})
	}
	if missing := missingOf(pod.Spec.SchedulingGates, gates, equalGate); len(missing) > 0 {
		ops = append(ops, jsonpatch.NewOperation("add", "/spec/schedulingGates", slices.Concat(pod.Spec.SchedulingGates, missing)))
	}
	var ready []corev1.PodReadinessGate
	for _, name := range p.ReadinessGates {
		ready = append(ready, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(name)})
	}
	if missing := missingOf(pod.Spec.ReadinessGates, ready, func(a, b corev1.PodReadinessGate) bool { return a == b }); len(missing) > 0 {
		ops = append(ops, jsonpatch.NewOperation("add", "/spec/readinessGates", slices.Concat(pod.Spec.ReadinessGates, missing)))
	}
	return ops, nil
}

// strategicOperations applies the strategic merge patch, and returns the pod after it.
func strategicOperations(raw []byte, p Patch) (ops []jsonpatch.Operation, after []byte, err error) {
	if p.Strategic == nil {
		return nil, raw, nil
	}
	if after, err = Apply(raw, p.Strategic); err != nil {
		return nil, raw, err
	}
	if ops, err = jsonpatch.CreatePatch(raw, after); err != nil {
		return nil, raw, fmt.Errorf("compare pod with the patched pod: %w", err)
	}
	priority, err := priorityOperations(raw, after)
	return append(ops, priority...), after, err
}

// missingOf returns the items of want that are not in has, each once: the API server
// refuses a list with an item twice.
func missingOf[T any](has, want []T, equal func(a, b T) bool) []T {
	var missing []T
	for _, w := range want {
		same := func(h T) bool { return equal(h, w) }
		if !slices.ContainsFunc(has, same) && !slices.ContainsFunc(missing, same) {
			missing = append(missing, w)
		}
	}
	return missing
}

func equalGate(a, b corev1.PodSchedulingGate) bool { return a.Name == b.Name }

func equalToleration(a, b corev1.Toleration) bool { return equality.Semantic.DeepEqual(a, b) }

// mapOperations sets and removes keys of a map of strings.
func mapOperations(path string, has, set map[string]string, drop []string) []jsonpatch.Operation {
	if len(has) == 0 && len(set) > 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, set)}
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var ops []jsonpatch.Operation
	for _, key := range slices.Sorted(maps.Keys(set)) {
		ops = append(ops, jsonpatch.NewOperation("add", path+"/"+escape.Replace(key), set[key]))
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(drop))) {
		if _, there := has[key]; there { // removing a missing key would be an error
			ops = append(ops, jsonpatch.NewOperation("remove", path+"/"+escape.Replace(key), nil))
		}
	}
	return ops
}

func affinityOperation(pod *corev1.Pod, p Patch) jsonpatch.Operation {
	node := &corev1.NodeAffinity{}
	if pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil {
		node = pod.Spec.Affinity.NodeAffinity.DeepCopy()
	}
	if len(p.Required)+len(p.RequiredFields) > 0 {
		node.RequiredDuringSchedulingIgnoredDuringExecution = require(
			node.RequiredDuringSchedulingIgnoredDuringExecution, p.Required, p.RequiredFields)
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
func require(s *corev1.NodeSelector, reqs, fields []corev1.NodeSelectorRequirement) *corev1.NodeSelector {
	if s == nil {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: reqs, MatchFields: fields}}}
	}
	for i := range s.NodeSelectorTerms {
		if t := &s.NodeSelectorTerms[i]; len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = append(t.MatchExpressions, reqs...)
			t.MatchFields = append(t.MatchFields, fields...)
		}
	}
	return s
}
