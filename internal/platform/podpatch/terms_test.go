package podpatch_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
)

// Whatever a pod's user wrote, the pod may go to the nodes to which it may go by that and
// which are the required place, and to no others.
func TestARequiredPlaceIsOneMoreConditionOfEveryAlternative(t *testing.T) {
	disk := func(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: "disk", Operator: op, Values: values}
	}
	term := func(reqs ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: reqs}
	}
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"zone=b,disk=ssd"}},
	}}
	users := map[string][]corev1.NodeSelectorTerm{
		"no affinity":                          nil,
		"one term":                             {term(disk(corev1.NodeSelectorOpIn, "ssd"))},
		"one term of two conditions":           {term(disk(corev1.NodeSelectorOpExists), want("zone", "b"))},
		"two alternatives":                     {term(disk(corev1.NodeSelectorOpIn, "ssd")), term(want("zone", "b"))},
		"alternatives that exclude":            {term(disk(corev1.NodeSelectorOpNotIn, "ssd")), term(disk(corev1.NodeSelectorOpDoesNotExist))},
		"an alternative that matches nothing":  {term(), term(disk(corev1.NodeSelectorOpIn, "hdd"))},
		"nothing but what matches nothing":     {term()},
		"a node by its name":                   {named},
		"a node by its name, or a kind of it":  {named, term(disk(corev1.NodeSelectorOpIn, "hdd"))},
		"the place itself, or another":         {term(want("zone", "a")), term(want("zone", "b"))},
		"only another place than the required": {term(want("zone", "b"))},
	}
	for name, terms := range users {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").Pod
			if terms != nil {
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
				}}
			}
			for _, place := range []string{"a", "b"} {
				patched := apply(t, pod, podpatch.Patch{Required: []corev1.NodeSelectorRequirement{want("zone", place)}})
				for _, node := range everyNode() {
					wanted := admits(pod, node) && node["zone"] == place
					if got := admits(patched, node); got != wanted {
						t.Errorf("place %s: node %v admitted %v, want %v", place, node, got, wanted)
					}
				}
			}
		})
	}
}

// everyNode are the labels of nodes of each zone and each kind of disk.
func everyNode() []map[string]string {
	var nodes []map[string]string
	for _, zone := range []string{"a", "b"} {
		for _, disk := range []string{"", "ssd", "hdd"} {
			node := map[string]string{"zone": zone}
			if disk != "" {
				node["disk"] = disk
			}
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// admits says by the API's own rules whether a pod's required affinity admits a node:
// terms are alternatives, and one without any condition matches nothing.
func admits(pod *corev1.Pod, node map[string]string) bool {
	if pod.Spec.Affinity == nil {
		return true
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	name := map[string]string{"metadata.name": fmt.Sprintf("zone=%s,disk=%s", node["zone"], node["disk"])}
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && all(t.MatchExpressions, node) && all(t.MatchFields, name)
	})
}

func all(reqs []corev1.NodeSelectorRequirement, labels map[string]string) bool {
	return !slices.ContainsFunc(reqs, func(r corev1.NodeSelectorRequirement) bool {
		value, there := labels[r.Key]
		switch r.Operator {
		case corev1.NodeSelectorOpIn:
			return !there || !slices.Contains(r.Values, value)
		case corev1.NodeSelectorOpNotIn:
			return there && slices.Contains(r.Values, value)
		case corev1.NodeSelectorOpExists:
			return !there
		case corev1.NodeSelectorOpDoesNotExist:
			return there
		default:
			panic("not used here: " + r.Operator)
		}
	})
}
