package spread_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
)

const disk = "disk"

// labs are the nodes of a random cluster: each zone and each kind of disk, some of them tainted.
func labs(random *rand.Rand) []*corev1.Node {
	var nodes []*corev1.Node
	for _, z := range []string{"a", "b", "c"} {
		for _, d := range []string{"", "ssd", "hdd"} {
			n := aNode("n-"+z+d, z)
			if d != "" {
				n.Labels[disk] = d
			}
			n.Labels["slots"] = fmt.Sprint(random.IntN(4))
			if random.IntN(6) == 0 {
				n.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
			}
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// requirement is a random requirement about the labels of labs.
func requirement(random *rand.Rand) corev1.NodeSelectorRequirement {
	all := []corev1.NodeSelectorRequirement{
		is(zone, "a"), is(zone, "b"), is(zone, "b", "c"), is(disk, "ssd"), is(disk, "ssd", "hdd"),
		{Key: zone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}},
		{Key: disk, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"ssd"}},
		{Key: disk, Operator: corev1.NodeSelectorOpExists},
		{Key: disk, Operator: corev1.NodeSelectorOpDoesNotExist},
		{Key: "slots", Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}},
		{Key: "slots", Operator: corev1.NodeSelectorOpLt, Values: []string{"2"}},
	}
	return all[random.IntN(len(all))]
}

// nodeNames are some of the names of labs.
var nodeNames = []string{"n-assd", "n-b", "n-chdd"}

// aSpread is a random spread of subsets, whose limits may be too small for all pods.
func aSpread(random *rand.Rand) spread.Spread {
	var s spread.Spread
	n := 1 + random.IntN(4)
	for i := range n {
		subset := inAny(string(rune('a'+i)), int32(random.IntN(5)))
		if random.IntN(3) == 0 || i == n-1 && random.IntN(2) == 0 {
			subset.Max = nil
		}
		if random.IntN(4) > 0 {
			subset.Required = &corev1.NodeSelectorTerm{}
			for range 1 + random.IntN(2) {
				subset.Required.MatchExpressions = append(subset.Required.MatchExpressions, requirement(random))
			}
			if random.IntN(6) == 0 {
				subset.Required.MatchFields = []corev1.NodeSelectorRequirement{is("metadata.name", nodeNames[random.IntN(len(nodeNames))])}
			}
		}
		if random.IntN(4) == 0 {
			subset.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
		}
		subset.Unschedulable = i < n-1 && random.IntN(5) == 0
		s.Subsets = append(s.Subsets, subset)
	}
	return s
}

// aTemplate is a random pod, which may ask for nodes itself.
func aTemplate(random *rand.Rand) *corev1.Pod {
	p := aPod("web-0", "")
	if random.IntN(3) > 0 {
		return p
	}
	required := &corev1.NodeSelector{}
	for range 1 + random.IntN(2) {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{requirement(random)},
		})
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	return p
}

// pinOf is what the pin adds for a recorded node: a required place, or only a preference. The labels may be
// those that the node had at another time.
func pinOf(random *rand.Rand, node *corev1.Node) podpatch.Patch {
	var p podpatch.Patch
	switch random.IntN(4) {
	case 0:
		return p
	case 1:
		p.Required = []corev1.NodeSelectorRequirement{is(corev1.LabelHostname, node.Name)}
	case 2:
		p.Required = []corev1.NodeSelectorRequirement{is(zone, node.Labels[zone])}
	case 3:
		p.Required = []corev1.NodeSelectorRequirement{is(zone, []string{"a", "b", "c"}[random.IntN(3)])}
	}
	return p
}

// created is a pod as it is stored: with what the pin and the subset add to it.
func created(t *testing.T, pod *corev1.Pod, s spread.Spread, d spread.Decision, pinned podpatch.Patch) *corev1.Pod {
	t.Helper()
	if d.Unpinned {
		pinned = podpatch.Patch{}
	}
	for _, subset := range s.Subsets {
		if subset.Name != d.Subset {
			continue
		}
		var err error
		if pinned, err = podpatch.Merge(pinned, spread.PatchOf(subset, "{}")); err != nil {
			t.Fatalf("the pin and subset %s: %v", subset.Name, err)
		}
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	ops, err := podpatch.Operations(raw, pinned)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := json.Unmarshal(raw, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// admitted reports whether the required terms of a pod admit a node.
func admitted(t *testing.T, pod *corev1.Pod, node *corev1.Node) bool {
	t.Helper()
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// history is how the pods of a random StatefulSet are rebuilt.
type history struct {
	t      *testing.T
	random *rand.Rand
	spread spread.Spread
	nodes  []*corev1.Node
	others []*corev1.Node // that there could be
	size   int32
	pods   map[int32]string       // their subsets
	homes  map[int32]*corev1.Node // their recorded nodes
	counts map[string]int
}

// TestHomeAndSubsetAgree rebuilds the pods of random workloads with random spreads and records.
func TestHomeAndSubsetAgree(t *testing.T) {
	sum := map[string]int{}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 12))
		h := history{
			t: t, random: random, spread: aSpread(random), nodes: labs(random), size: int32(1 + random.IntN(8)),
			pods: map[int32]string{}, homes: map[int32]*corev1.Node{}, counts: sum,
		}
		h.others = everyNode(h.nodes)
		for range 20 {
			h.change()
			h.rebuild(int32(random.IntN(int(h.size))), fmt.Sprintf("seed %d", seed))
		}
		if t.Failed() {
			return
		}
	}
	t.Log(sum)
	for _, what := range []string{"home", "unpinned", "none", "skipped", "by choice", "agree", "required"} {
		if sum[what] < 10 {
			t.Errorf("%d pods were %q, which tests little", sum[what], what)
		}
	}
}

// change changes the spread now and then.
func (h *history) change() {
	if h.random.IntN(8) > 0 {
		return
	}
	i := h.random.IntN(len(h.spread.Subsets))
	s := &h.spread.Subsets[i]
	switch h.random.IntN(3) {
	case 0:
		s.Unschedulable = i < len(h.spread.Subsets)-1 && !s.Unschedulable
	case 1:
		s.Max = new(int32(h.random.IntN(5)))
	case 2:
		h.spread.Subsets = append(h.spread.Subsets[:i:i], h.spread.Subsets[i+1:]...)
		if len(h.spread.Subsets) == 0 {
			h.spread = aSpread(h.random)
		}
	}
}

// rebuild deletes a pod and creates it again.
func (h *history) rebuild(ordinal int32, name string) {
	h.t.Helper()
	pod, before := aTemplate(h.random), h.pods[ordinal]
	delete(h.pods, ordinal)
	home, pinned := spread.Home{Room: h.random.IntN(4) == 0}, podpatch.Patch{}
	if home.Node = h.homes[ordinal]; home.Node != nil {
		pinned = pinOf(h.random, home.Node)
		home.Place = pinned.Required
	}
	d := h.decide(ordinal, pod, home)
	got := created(h.t, pod, h.spread, d, pinned)
	h.checkTerms(name, got, d, pinned)
	h.checkHome(name, d, before, home)
	h.checkMaximum(name, d, home)
	if d.Subset != "" {
		h.pods[ordinal] = d.Subset
	} else {
		h.counts["none"]++
	}
	for _, i := range h.random.Perm(len(h.nodes)) { // as a scheduler would, and the record follows
		if admitted(h.t, got, h.nodes[i]) {
			h.homes[ordinal] = h.nodes[i]
			return
		}
	}
}

// decide asks Assign, or Choose, as for a workload whose pods have names without ordinals.
func (h *history) decide(ordinal int32, pod *corev1.Pod, home spread.Home) spread.Decision {
	slots, homes := map[string]spread.Slots{}, map[int32]spread.Home{}
	for _, subset := range h.pods {
		slots[subset] = spread.Slots{Pods: slots[subset].Pods + 1}
	}
	if h.random.IntN(3) == 0 {
		h.counts["by choice"]++
		return spread.Choose(spread.Input{Spread: h.spread, Slots: slots, Pod: pod, Node: home.Node, Place: home.Place, Room: home.Room})
	}
	for o, node := range h.homes {
		homes[o] = spread.Home{Node: node}
	}
	homes[ordinal] = home
	return spread.Assign(spread.OrdinalInput{
		Spread: h.spread, Desired: workload.Desired{Replicas: h.size}, Pods: h.pods, Homes: homes, Pod: pod,
	}).Of(ordinal)
}

// everyNode are the nodes that there could be: those of labs, each with every number of slots.
func everyNode(nodes []*corev1.Node) []*corev1.Node {
	var all []*corev1.Node
	for _, n := range nodes {
		for slots := range 4 {
			n = n.DeepCopy()
			n.Labels["slots"] = fmt.Sprint(slots)
			all = append(all, n)
		}
	}
	return all
}

// checkTerms checks that there could be a node that meets what the pin and the subset require, if there could be
// one that meets the subset alone. The user's own terms may exclude the place, as the pin finds out by itself.
func (h *history) checkTerms(name string, got *corev1.Pod, d spread.Decision, pinned podpatch.Patch) {
	h.t.Helper()
	if d.Unpinned || d.Subset == "" || len(pinned.Required) == 0 {
		return
	}
	met := func(p *corev1.Pod) bool {
		required := nodeaffinity.GetRequiredNodeAffinity(p)
		return slices.ContainsFunc(h.others, func(n *corev1.Node) bool {
			ok, err := required.Match(n)
			return ok && err == nil
		})
	}
	bare := aPod("web-0", "")
	both := created(h.t, bare, h.spread, d, pinned)
	if met(created(h.t, bare, h.spread, d, podpatch.Patch{})) && !met(both) {
		h.t.Errorf("%s: the subset and the pin contradict each other: %+v", name, both.Spec.Affinity.NodeAffinity)
	}
	if met(got) {
		h.counts["agree"]++
	}
}

// checkHome checks that a pod comes home whose node and subset still want it.
func (h *history) checkHome(name string, d spread.Decision, before string, home spread.Home) {
	h.t.Helper()
	if home.Node == nil {
		return
	}
	if d.Unpinned {
		h.counts["unpinned"]++
	}
	if len(home.Place) > 0 && d.Unpinned {
		h.t.Errorf("%s: a pod whose place is required goes elsewhere: %+v", name, d)
	}
	if d.Reason == spread.ReasonRequired {
		h.counts["required"]++
	}
	if d.Reason == spread.ReasonSkipped {
		h.counts["skipped"]++
	}
	for _, s := range h.spread.Subsets {
		used := int32(0)
		for _, other := range h.pods {
			if other == s.Name {
				used++
			}
		}
		// Nothing has the slot of the pod: not a pod, and not the record of a missing pod.
		wanted := s.Name == before && (!s.Unschedulable || home.Room) && (s.Max == nil || used+int32(len(h.missing())) < *s.Max) && spread.SubsetOf(
			spread.Spread{Subsets: []spread.Subset{s}}, nil, home.Node) != "" && contains(home)
		if !wanted {
			continue
		}
		if d.Unpinned || d.Subset == "" {
			h.t.Errorf("%s: subset %s and node %s want the pod, which gets %+v", name, s.Name, home.Node.Name, d)
		}
		bare := created(h.t, aPod("web-0", ""), h.spread, d, podpatch.Patch{Required: home.Place})
		if !admitted(h.t, bare, home.Node) {
			h.t.Errorf("%s: a pod that returns is not admitted by its node %s", name, home.Node.Name)
		}
		h.counts["home"]++
	}
}

// missing are the wanted ordinals without a pod.
func (h *history) missing() []int32 {
	var all []int32
	for o := range h.size {
		if h.pods[o] == "" {
			all = append(all, o)
		}
	}
	return all
}

// contains reports whether the recorded node still is in the required place.
func contains(home spread.Home) bool {
	for _, r := range home.Place {
		if home.Node.Labels[r.Key] != r.Values[0] {
			return false
		}
	}
	return true
}

// checkMaximum checks that the pod does not overfill its subset, unless its place is required, and gets a skipped
// subset on a node with room alone.
func (h *history) checkMaximum(name string, d spread.Decision, home spread.Home) {
	h.t.Helper()
	for _, s := range h.spread.Subsets {
		used := int32(0)
		for _, other := range h.pods {
			if other == s.Name {
				used++
			}
		}
		if s.Name == d.Subset && s.Max != nil && used >= *s.Max && d.Reason != spread.ReasonRequired {
			h.t.Errorf("%s: subset %s has %d pods of %d, and gets another one", name, s.Name, used, *s.Max)
		}
		if s.Name == d.Subset && s.Unschedulable && len(home.Place) == 0 && (!home.Room || d.Reason != spread.ReasonReturns) {
			h.t.Errorf("%s: skipped subset %s gets a pod", name, s.Name)
		}
	}
}
