package fit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/platform/fit"
)

const zone = "topology.kubernetes.io/zone"

// inZone is a node in a zone.
func inZone(name, value string) *corev1.Node {
	n := aNode()
	n.Name, n.Labels = name, map[string]string{zone: value}
	return n
}

// terms is a pod whose required affinity has one alternative for each requirement.
func terms(alternatives ...corev1.NodeSelectorRequirement) *corev1.Pod {
	var required corev1.NodeSelector
	for _, r := range alternatives {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}})
	}
	return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &required},
	}}}
}

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// TestExcludes reports whether a pod rules out zone a, and compares with what the node
// affinity of the scheduler says about a node there.
func TestExcludes(t *testing.T) {
	selects := func(value string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{zone: value}}}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"no selector":                       {aPod(), false},
		"the zone is selected":              {selects("a"), false},
		"another zone is selected":          {selects("b"), true},
		"in the zone":                       {terms(requirement(zone, corev1.NodeSelectorOpIn, "a", "b")), false},
		"in another zone":                   {terms(requirement(zone, corev1.NodeSelectorOpIn, "b")), true},
		"in another zone, or in any":        {terms(requirement(zone, corev1.NodeSelectorOpIn, "b"), requirement(zone, corev1.NodeSelectorOpExists)), false},
		"in two other zones":                {terms(requirement(zone, corev1.NodeSelectorOpIn, "b"), requirement(zone, corev1.NodeSelectorOpIn, "c")), true},
		"not in the zone":                   {terms(requirement(zone, corev1.NodeSelectorOpNotIn, "a")), true},
		"not in another zone":               {terms(requirement(zone, corev1.NodeSelectorOpNotIn, "b")), false},
		"above a number":                    {terms(requirement(zone, corev1.NodeSelectorOpGt, "4")), true},
		"without a zone":                    {terms(requirement(zone, corev1.NodeSelectorOpDoesNotExist)), true},
		"about another label, with no node": {terms(requirement("disk", corev1.NodeSelectorOpDoesNotExist)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fit.Excludes(tc.pod, zone, "a"); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := fit.Admits(tc.pod, inZone("n1", "a")); got != !tc.want {
				t.Errorf("a node in the zone is admitted: %v, want %v", got, !tc.want)
			}
		})
	}
}

// TestMeets compares a label of the value 5 with requirements.
func TestMeets(t *testing.T) {
	for name, tc := range map[string]struct {
		r    corev1.NodeSelectorRequirement
		want bool
	}{
		"in":              {requirement(zone, corev1.NodeSelectorOpIn, "4", "5"), true},
		"in others":       {requirement(zone, corev1.NodeSelectorOpIn, "4"), false},
		"not in":          {requirement(zone, corev1.NodeSelectorOpNotIn, "5"), false},
		"not in others":   {requirement(zone, corev1.NodeSelectorOpNotIn, "4"), true},
		"there":           {requirement(zone, corev1.NodeSelectorOpExists), true},
		"not there":       {requirement(zone, corev1.NodeSelectorOpDoesNotExist), false},
		"above":           {requirement(zone, corev1.NodeSelectorOpGt, "4"), true},
		"not above":       {requirement(zone, corev1.NodeSelectorOpGt, "5"), false},
		"below":           {requirement(zone, corev1.NodeSelectorOpLt, "6"), true},
		"below no number": {requirement(zone, corev1.NodeSelectorOpLt, "a"), false},
		"of two numbers":  {requirement(zone, corev1.NodeSelectorOpGt, "3", "4"), false},
	} {
		if got := fit.Meets(tc.r, "5"); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestAdmitsWhatCannotBeParsed leaves a wrong selector to the scheduler.
func TestAdmitsWhatCannotBeParsed(t *testing.T) {
	if !fit.Admits(terms(requirement(zone, "Near", "a")), inZone("n1", "b")) {
		t.Error("the node is not admitted")
	}
}

// TestFilters select nodes by label and by predicate.
func TestFilters(t *testing.T) {
	nodes := []*corev1.Node{inZone("n1", "a"), inZone("n2", "b"), inZone("n3", "a")}
	if got := fit.WithLabels(nodes, labels.Set{zone: "a"}); len(got) != 2 || got[0].Name != "n1" || got[1].Name != "n3" {
		t.Errorf("zone a: %v", got)
	}
	if got := fit.FilterOrAll(nodes, func(n *corev1.Node) bool { return n.Name == "n2" }); len(got) != 1 || got[0].Name != "n2" {
		t.Errorf("n2: %v", got)
	}
	if got := fit.FilterOrAll(nodes, func(*corev1.Node) bool { return false }); len(got) != len(nodes) {
		t.Errorf("a predicate that holds for no node leaves %d nodes, want all", len(got))
	}
}
