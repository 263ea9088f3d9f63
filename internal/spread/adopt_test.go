package spread_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/spread"
)

// patching gives a subset a patch.
func patching(s spread.Subset, patch string) spread.Subset {
	s.Patch = []byte(patch)
	return s
}

// preferring gives a subset a preferred label of nodes.
func preferring(s spread.Subset, weight int32, r corev1.NodeSelectorRequirement) spread.Subset {
	s.Preferred = []corev1.PreferredSchedulingTerm{{Weight: weight, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}}}
	return s
}

func TestAdoptChoosesTheBestSubset(t *testing.T) {
	labels := func(p *corev1.Pod, tier string) *corev1.Pod {
		p.Labels = map[string]string{"tier": tier}
		return p
	}
	hot, cold := `{"metadata":{"labels":{"tier":"hot"}}}`, `{"metadata":{"labels":{"tier":"cold"},"annotations":{"x":"y"}}}`
	hots, colds := patching(inAny("a", 5), hot), patching(inAny("b", 5), cold)
	full := map[string]spread.Slots{"a": {Pods: 3, Booked: 2}}
	for name, tc := range map[string]struct {
		spread spread.Spread
		pod    *corev1.Pod
		slots  map[string]spread.Slots
		want   string
	}{
		"by its node":                               {of(inZone("a", 1), inZone("b", 1)), aPod("p", "in-b"), nil, "b"},
		"no subset contains the node":               {of(inZone("c", 1)), aPod("p", "in-b"), nil, ""},
		"a node that is not known":                  {of(inAny("a", 1)), aPod("p", "gone"), nil, ""},
		"a pod without a node":                      {of(inAny("a", 1)), aPod("p", ""), nil, ""},
		"the only subset, full":                     {of(inAny("a", 5)), aPod("p", "in-b"), full, "a"},
		"the first of equals":                       {of(inAny("a", 1), inAny("b", 1)), aPod("p", "in-b"), nil, "a"},
		"a free slot":                               {of(inAny("a", 5), inAny("b", 5)), aPod("p", "in-b"), full, "b"},
		"equal to the patch, before a free slot":    {of(hots, colds), labels(aPod("p", "in-b"), "hot"), full, "a"},
		"equal to another patch but an annotation":  {of(hots, colds), labels(aPod("p", "in-b"), "cold"), nil, "b"},
		"equal to no patch":                         {of(hots, colds), aPod("p", "in-b"), full, "b"},
		"no patch is not equal":                     {of(inAny("a", 5), inAny("b", -1)), aPod("p", "in-b"), full, "b"},
		"preferred, before equal":                   {of(hots, preferring(inAny("b", 5), 1, is(zone, "b"))), labels(aPod("p", "in-b"), "hot"), nil, "b"},
		"preferred with a higher weight":            {of(preferring(inAny("a", 5), 3, is(zone, "b")), preferring(inAny("b", 5), 4, is(zone, "b"))), aPod("p", "in-b"), nil, "b"},
		"preferred nodes that are not the pod's":    {of(inAny("a", 5), preferring(inAny("b", 5), 9, is(zone, "x"))), aPod("p", "in-b"), nil, "a"},
		"a skipped subset contains the pod as well": {of(skipping(inZone("b", 1)), inAny("c", 1)), aPod("p", "in-b"), nil, "b"},
		"a patch that does not apply":               {of(patching(inAny("a", 5), `[]`), inAny("b", 5)), aPod("p", "in-b"), full, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := map[string]*corev1.Node{"in-b": aNode("in-b", "b")}
			got := spread.Adopt(spread.AdoptInput{Spread: tc.spread, Pods: []*corev1.Pod{tc.pod}, Nodes: nodes, Slots: tc.slots})
			if got["p"] != tc.want {
				t.Errorf("subset %q, want %q", got["p"], tc.want)
			}
		})
	}
}

// Elastic subsets have the same nodes. The oldest pods belong to the first subset.
func TestAdoptFillsSubsetsOfTheSameNodes(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 5 {
		p := aPod(fmt.Sprint("p", i), "n")
		p.CreationTimestamp = metav1.NewTime(start.Add(-time.Duration(i) * time.Minute))
		pods = append(pods, p)
	}
	in := spread.AdoptInput{
		Spread: of(patching(inAny("a", 3), `{"metadata":{"labels":{"cost":"owned"}}}`), patching(inAny("b", -1), `{"metadata":{"labels":{"cost":"rented"}}}`)),
		Pods:   pods, Nodes: map[string]*corev1.Node{"n": aNode("n", "x")}, Slots: map[string]spread.Slots{"a": {Pods: 1}},
	}
	want := map[types.UID]string{"p4": "a", "p3": "a", "p2": "b", "p1": "b", "p0": "b"}
	if diff := cmp.Diff(want, spread.Adopt(in)); diff != "" {
		t.Errorf("subsets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]spread.Slots{"a": {Pods: 1}}, in.Slots); diff != "" {
		t.Errorf("the slots were changed:\n%s", diff)
	}
}

func TestMetadataOf(t *testing.T) {
	labels, annotations := spread.MetadataOf(patching(inAny("a", 1), `{
		"metadata": {
			"labels": {"tier": "hot", "gone": null, "topology.kubernetes.io/zone": "a"},
			"annotations": {"own.example.com/a": "1", "limpet.dev/node": "n1", "apps.kruise.io/matched-workloadspread": "{}", "$patch": "replace"}
		},
		"spec": {"priorityClassName": "low"}}`))
	if diff := cmp.Diff(map[string]string{"tier": "hot"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"own.example.com/a": "1"}, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	for _, patch := range []string{``, `{`, `{"metadata":[]}`} {
		if labels, annotations = spread.MetadataOf(patching(inAny("a", 1), patch)); len(labels)+len(annotations) != 0 {
			t.Errorf("patch %q: %v, %v", patch, labels, annotations)
		}
	}
}
