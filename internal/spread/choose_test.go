package spread_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/spread"
)

func TestChoose(t *testing.T) {
	two := of(inZone("a", 2), inZone("b", 2), inZone("c", -1))
	limited := of(inZone("a", 1), inZone("b", 1))
	skips := of(skipping(inZone("a", 2)), inZone("b", 2), inZone("c", -1))
	slots := func(a, b spread.Slots) map[string]spread.Slots { return map[string]spread.Slots{"a": a, "b": b} }
	one, full, booked := spread.Slots{Pods: 1}, spread.Slots{Pods: 2}, spread.Slots{Pods: 1, Booked: 1}
	oldest := &spread.Entry{Key: "old", Subset: "a"}
	for name, tc := range map[string]struct {
		in   spread.Input
		want spread.Decision
	}{
		"the first subset":                  {spread.Input{Spread: two}, spread.Decision{Subset: "a", Book: true, Reason: spread.ReasonFilled}},
		"the first with a free slot":        {spread.Input{Spread: two, Slots: slots(full, one)}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonFilled}},
		"entries use slots":                 {spread.Input{Spread: two, Slots: slots(booked, one)}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonFilled}},
		"no entry where there is no limit":  {spread.Input{Spread: two, Slots: slots(full, full)}, spread.Decision{Subset: "c", Reason: spread.ReasonFilled}},
		"a maximum of 0":                    {spread.Input{Spread: of(inZone("a", 0), inZone("b", -1))}, spread.Decision{Subset: "b", Reason: spread.ReasonFilled}},
		"no subset fits":                    {spread.Input{Spread: limited, Slots: slots(full, one)}, spread.Decision{Reason: spread.ReasonNoneFits}},
		"more pods than the maximum":        {spread.Input{Spread: limited, Slots: slots(full, spread.Slots{})}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonFilled}},
		"a skipped subset":                  {spread.Input{Spread: skips}, spread.Decision{Subset: "b", Book: true, Home: "a", Reason: spread.ReasonFilled}},
		"a skipped subset that is full":     {spread.Input{Spread: skips, Slots: slots(full, one)}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonFilled}},
		"the subset of an entry":            {spread.Input{Spread: two, Earlier: "b"}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonEarlier}},
		"an entry in a subset that is gone": {spread.Input{Spread: two, Earlier: "x"}, spread.Decision{Subset: "a", Book: true, Reason: spread.ReasonFilled}},
		"an entry in a skipped subset":      {spread.Input{Spread: skips, Earlier: "a"}, spread.Decision{Subset: "b", Book: true, Home: "a", Reason: spread.ReasonFilled}},
		"an entry in a subset that is full": {spread.Input{Spread: two, Earlier: "a", Slots: slots(full, one)}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonFilled}},
		"a surplus creation takes over the oldest entry": {
			spread.Input{Spread: two, Slots: slots(booked, one), Surplus: true, Oldest: oldest},
			spread.Decision{Subset: "a", Book: true, Replaces: "old", Reason: spread.ReasonFilled},
		},
		"a surplus creation and an earlier subset": {
			spread.Input{Spread: two, Slots: slots(one, booked), Surplus: true, Oldest: &spread.Entry{Key: "old", Subset: "b"}},
			spread.Decision{Subset: "a", Book: true, Replaces: "old", Reason: spread.ReasonFilled},
		},
		"a surplus creation that needs no entry": {
			spread.Input{Spread: of(inZone("c", -1), inZone("a", 1)), Surplus: true, Oldest: oldest},
			spread.Decision{Subset: "c", Reason: spread.ReasonFilled},
		},
		"a surplus creation without an entry": {spread.Input{Spread: two, Slots: slots(full, one), Surplus: true}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonFilled}},
		"its own entry comes before a surplus": {
			spread.Input{Spread: two, Earlier: "b", Surplus: true, Oldest: oldest}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonEarlier},
		},
		"home before the order":        {spread.Input{Spread: two, Node: aNode("n1", "b")}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonReturns}},
		"home in the last subset":      {spread.Input{Spread: skips, Node: aNode("n1", "c")}, spread.Decision{Subset: "c", Reason: spread.ReasonReturns}},
		"home is full":                 {spread.Input{Spread: two, Slots: slots(one, full), Node: aNode("n1", "b")}, spread.Decision{Subset: "a", Book: true, Unpinned: true, Reason: spread.ReasonFull}},
		"home is skipped":              {spread.Input{Spread: skips, Node: aNode("n1", "a")}, spread.Decision{Subset: "b", Book: true, Home: "a", Unpinned: true, Reason: spread.ReasonSkipped}},
		"home is in no subset":         {spread.Input{Spread: two, Node: aNode("n1", "x")}, spread.Decision{Subset: "a", Book: true, Unpinned: true, Reason: spread.ReasonNoSubset}},
		"home, and no subset fits":     {spread.Input{Spread: limited, Slots: slots(full, full), Node: aNode("n1", "a")}, spread.Decision{Reason: spread.ReasonNoneFits}},
		"a required place":             {spread.Input{Spread: two, Place: []corev1.NodeSelectorRequirement{is(zone, "b")}}, spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonReturns}},
		"a required place outside":     {spread.Input{Spread: two, Place: []corev1.NodeSelectorRequirement{is(zone, "x")}}, spread.Decision{Reason: spread.ReasonNoSubset}},
		"a place about another label":  {spread.Input{Spread: two, Place: []corev1.NodeSelectorRequirement{is("disk", "ssd")}}, spread.Decision{Subset: "a", Book: true, Reason: spread.ReasonReturns}},
		"a node whose label has moved": {spread.Input{Spread: two, Node: aNode("n1", "b"), Place: []corev1.NodeSelectorRequirement{is(zone, "a")}}, spread.Decision{Subset: "a", Book: true, Reason: spread.ReasonReturns}},
		"a required place that is full": {
			spread.Input{Spread: two, Slots: slots(one, full), Node: aNode("n1", "b"), Place: []corev1.NodeSelectorRequirement{is(zone, "b")}},
			spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonRequired},
		},
		"a required place that is skipped": {
			spread.Input{Spread: skips, Node: aNode("n1", "a"), Place: []corev1.NodeSelectorRequirement{is(zone, "a")}},
			spread.Decision{Subset: "a", Book: true, Reason: spread.ReasonReturns},
		},
		"a required place, and an entry elsewhere": {
			spread.Input{Spread: two, Earlier: "a", Node: aNode("n1", "b"), Place: []corev1.NodeSelectorRequirement{is(zone, "b")}},
			spread.Decision{Subset: "b", Book: true, Reason: spread.ReasonReturns},
		},
		"home is skipped, and its node has room": {spread.Input{Spread: skips, Node: aNode("n1", "a"), Room: true}, spread.Decision{Subset: "a", Book: true, Reason: spread.ReasonReturns}},
		"home is skipped, and its node is cordoned": {
			spread.Input{Spread: skips, Node: cordoned(aNode("n1", "a")), Room: true},
			spread.Decision{Subset: "b", Book: true, Home: "a", Unpinned: true, Reason: spread.ReasonSkipped},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := cmp.Diff(nil, tc.in.Slots)
			got := spread.Choose(tc.in)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(spread.Decision{}, "Message")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if got.Message == "" {
				t.Error("the decision has no message")
			}
			if cmp.Diff(nil, tc.in.Slots) != before {
				t.Error("the slots were changed")
			}
		})
	}
}

func cordoned(n *corev1.Node) *corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

func TestInputOf(t *testing.T) {
	at := func(key, subset, owner string, age time.Duration) spread.Entry {
		return spread.Entry{Key: key, Subset: subset, Owner: owner, Since: start.Add(-age)}
	}
	before := func(key string) bool { return key != "v" }
	entries := []spread.Entry{
		at("v", "b", "rs", 3*time.Second),
		at("mine", "b", "rs", time.Minute), at("x", "a", "rs", 2*time.Second), at("w", "b", "rs", 2*time.Second),
		at("y", "b", "rs", time.Second), at("other", "b", "other", time.Minute),
	}
	f := spread.Facts{Key: "mine", Owner: "rs", Pods: map[string]int32{"a": 2}, OwnerPods: 3, Wants: 7, Entries: entries, Before: before}
	got := spread.InputOf(f)
	want := map[string]spread.Slots{"a": {Pods: 2, Booked: 1}, "b": {Booked: 4}}
	if diff := cmp.Diff(want, got.Slots); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
	if got.Earlier != "b" || !got.Surplus || got.Oldest == nil || got.Oldest.Key != "w" {
		t.Errorf("earlier %q, surplus %v, oldest %v", got.Earlier, got.Surplus, got.Oldest)
	}
	f.Behind = true
	if got = spread.InputOf(f); got.Oldest != nil || !got.Surplus {
		t.Errorf("a replica that is behind takes over %v, surplus %v", got.Oldest, got.Surplus)
	}
	for wants, surplus := range map[int32]bool{0: true, 7: true, 8: false, spread.UnknownWants: false} {
		if f.Wants = wants; spread.InputOf(f).Surplus != surplus {
			t.Errorf("an owner that wants %d has a surplus: %v", wants, !surplus)
		}
	}
}

func TestSubsetOf(t *testing.T) {
	tainted := aNode("t", "a")
	tainted.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
	silent := aNode("s", "b")
	silent.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	silent.Spec.Unschedulable = true
	spot := inZone("spot", 0)
	spot.Required = &corev1.NodeSelectorTerm{}
	spot.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	named := inZone("named", 0)
	named.Required = &corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{is("metadata.name", "n9")}}
	invalid := inZone("invalid", 0)
	invalid.Required.MatchExpressions[0].Operator = "Near"
	tolerant := aPod("web-0", "")
	tolerant.Spec.Tolerations = spot.Tolerations
	s := of(invalid, inZone("a", 0), skipping(inZone("b", 0)), named, spot)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want string
	}{
		"by its zone":                       {nil, aNode("n1", "a"), "a"},
		"neither limits nor skips count":    {nil, aNode("n1", "b"), "b"},
		"by its name":                       {nil, aNode("n9", "x"), "named"},
		"a term that says nothing":          {nil, aNode("n1", "x"), "spot"},
		"a taint that the subset tolerates": {nil, tainted, "spot"},
		"a taint that the pod tolerates":    {tolerant, tainted, "a"},
		"taints of the node's state":        {nil, silent, "b"},
		"no node":                           {nil, nil, ""},
	} {
		if got := spread.SubsetOf(s, tc.pod, tc.node); got != tc.want {
			t.Errorf("%s: subset %q, want %q", name, got, tc.want)
		}
	}
	if got := spread.SubsetOf(of(invalid, named), nil, aNode("n1", "a")); got != "" {
		t.Errorf("no subset contains the node, but %q", got)
	}
}
