package scalein_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// apod is a Ready pod on a host of a zone.
func apod(name, zone, host string) scalein.Pod {
	return scalein.Pod{Name: name, Bound: true, Domain: zone, Host: host, Running: true, Ready: true}
}

func of(subset string, pods ...scalein.Pod) []scalein.Pod {
	for i := range pods {
		pods[i].Subset = subset
	}
	return pods
}

// ready are pods of a subset, the oldest first.
func ready(subset string, n int) (pods []scalein.Pod) {
	for i := range n {
		p := apod(fmt.Sprintf("%s-%02d", subset, i), "", "")
		p.Subset, p.Since = subset, time.Unix(int64(i), 0)
		pods = append(pods, p)
	}
	return pods
}

// costs are the costs that a decision writes, by the pod.
func costs(d scalein.Decision) map[string]string {
	out := map[string]string{}
	for _, w := range d.Writes {
		out[w.Pod] = w.Cost
	}
	return out
}

// count counts the pods with the same cost.
func count(d scalein.Decision) map[string]int {
	out := map[string]int{}
	for _, w := range d.Writes {
		out[w.Cost]++
	}
	return out
}

// The costs of subsets are those of OpenKruise.
func TestCostsOfSubsetsAreThoseOfOpenKruise(t *testing.T) {
	three := []scalein.Subset{{Name: "a", Max: new(int32(10))}, {Name: "b", Max: new(int32(10))}, {Name: "c"}}
	join := func(all ...[]scalein.Pod) (pods []scalein.Pod) {
		for _, p := range all {
			pods = append(pods, p...)
		}
		return pods
	}
	for name, tc := range map[string]struct {
		in   scalein.Input
		want map[string]int
	}{
		"within the maximum": {
			scalein.Input{Subsets: three, Pods: join(ready("a", 10), ready("b", 10), ready("c", 10))},
			map[string]int{"300": 10, "200": 10, "100": 10},
		},
		"with a surplus": {
			scalein.Input{Subsets: three, Pods: join(ready("a", 20), ready("b", 20), ready("c", 1))},
			map[string]int{"300": 10, "-100": 10, "200": 10, "-200": 10, "100": 1},
		},
		"of no subset, and of one that was removed": {
			scalein.Input{Subsets: three, Pods: join(ready("", 1), ready("removed", 2))},
			map[string]int{"-400": 3},
		},
		"of an old revision": {
			scalein.Input{Subsets: three, Old: true, Pods: join(ready("a", 11), ready("b", 1), ready("c", 1), ready("", 1))},
			map[string]int{"100": 10, "-300": 1, "200": 1, "300": 1, "-400": 1},
		},
		"of two subsets": {
			scalein.Input{Subsets: three[:2], Pods: join(ready("a", 1), ready("b", 1), ready("", 1))},
			map[string]int{"200": 1, "100": 1, "-300": 1},
		},
		"of one subset": {
			scalein.Input{Subsets: three[:1], Pods: join(ready("a", 1), ready("", 1))},
			map[string]int{"100": 1, "-200": 1},
		},
		"of a subset for no pod": {
			scalein.Input{Subsets: []scalein.Subset{{Name: "a", Max: new(int32(0))}, {Name: "b"}}, Pods: ready("a", 2)},
			map[string]int{"-100": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, count(scalein.Plan(tc.in))); diff != "" {
				t.Errorf("costs (-want +got):\n%s", diff)
			}
		})
	}
}

// The surplus of a subset are the pods that the ReplicaSet controller would delete first. It
// stays the same while pods become Ready or not, so that such a change costs no write.
func TestTheSurplusOfASubset(t *testing.T) {
	pods := ready("a", 4)
	pods[0].Ready = false
	pods[1].Bound, pods[1].Running, pods[1].Ready = false, false, false
	in := scalein.Input{Subsets: []scalein.Subset{{Name: "a", Max: new(int32(2))}}, Pods: pods}
	got := costs(scalein.Plan(in))
	want := map[string]string{"a-00": "-100", "a-01": "-100", "a-02": "100", "a-03": "100"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("costs (-want +got):\n%s", diff)
	}
	for i := range pods {
		pods[i].Cost, pods[i].Mark = got[pods[i].Name], got[pods[i].Name]
		pods[i].Bound, pods[i].Running, pods[i].Ready = true, true, true
	}
	pods[3].Ready = false
	if d := scalein.Plan(in); len(d.Writes) > 0 {
		t.Errorf("writes %v, want none", d.Writes)
	}
	pods = pods[:3]
	in.Pods = pods // a pod within the maximum is gone
	if diff := cmp.Diff(map[string]string{"a-00": "100"}, costs(scalein.Plan(in))); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

// A cost of a user or of another program is left alone and told, also if OpenKruise writes the same
// number. A cost that OpenKruise wrote for a spread is taken over.
func TestForeignCostsAreLeftAlone(t *testing.T) {
	two := []scalein.Subset{{Name: "a"}, {Name: "b"}}
	for name, tc := range map[string]struct {
		subsets         []scalein.Subset
		cost, mark      string
		kruise, foreign bool
	}{
		"none":                               {two, "", "", false, false},
		"Limpet's":                           {two, "100", "100", false, false},
		"a user's":                           {two, "7", "", false, true},
		"a user's after Limpet's":            {two, "7", "100", false, true},
		"a user's that is no number":         {two, "low", "", false, true},
		"a user's that is one of OpenKruise": {two, "100", "", false, true},
		"a user's for the surplus":           {two, "-300", "", false, true},
		"removed after Limpet's":             {two, "", "100", false, false},
		"OpenKruise's":                       {two, "-300", "", true, false},
		"OpenKruise's after Limpet's":        {two, "-300", "100", true, true},
		"OpenKruise's, but not for a spread": {two, "300", "", true, true},
		"OpenKruise's zero":                  {two, "0", "", true, true},
		"OpenKruise's without a spread":      {nil, "100", "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := apod("p", "z", "h")
			pod.Subset, pod.Cost, pod.Mark, pod.Kruise = "a", tc.cost, tc.mark, tc.kruise
			d := scalein.Plan(scalein.Input{Subsets: tc.subsets, Balanced: tc.subsets == nil, Pods: []scalein.Pod{pod}})
			if foreign := len(d.Foreign) > 0; foreign != tc.foreign || foreign == (len(d.Writes) > 0) {
				t.Errorf("foreign %v, writes %v, want foreign: %t, or else a write", d.Foreign, d.Writes, tc.foreign)
			}
		})
	}
}

// Without the annotation and without a spread, Limpet's own costs are removed, and no others.
func TestCostsAreRemovedAfterwards(t *testing.T) {
	ours, theirs, changed, removed := apod("ours", "", ""), apod("theirs", "", ""), apod("changed", "", ""), apod("removed", "", "")
	ours.Cost, ours.Mark = "300", "300"
	theirs.Cost = "300"
	changed.Cost, changed.Mark = "7", "300"
	removed.Mark = "300"
	d := scalein.Plan(scalein.Input{Pods: []scalein.Pod{ours, theirs, changed, removed}})
	if diff := cmp.Diff(map[string]string{"ours": "", "removed": ""}, costs(d)); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

// apply writes the costs of a decision into pods.
func apply(pods []scalein.Pod, d scalein.Decision) {
	for cost, i := costs(d), 0; i < len(pods); i++ {
		if to, ok := cost[pods[i].Name]; ok {
			pods[i].Cost, pods[i].Mark = to, to
		}
	}
}

func TestLayers(t *testing.T) {
	pods := []scalein.Pod{
		apod("a0", "a", "h1"), apod("a1", "a", "h1"), apod("a2", "a", "h2"), apod("b0", "b", "h3"), {Name: "pending"},
	}
	in := scalein.Input{Balanced: true, Pods: pods}
	d := scalein.Plan(in)
	// The two hosts of zone a take turns.
	if diff := cmp.Diff(map[string]string{"a0": "10000000", "a2": "9999999", "a1": "9999998", "b0": "10000000"}, costs(d)); diff != "" {
		t.Fatalf("layers (-want +got):\n%s", diff)
	}
	apply(pods, d)
	if again := scalein.Plan(in); len(again.Writes) > 0 || again.Holes {
		t.Errorf("the second decision is %+v, want nothing", again)
	}
	t.Run("a hole waits for the pod on its way", func(t *testing.T) {
		left := append([]scalein.Pod{apod("new", "b", "h3")}, pods[1:]...) // a0 is gone
		d := scalein.Plan(scalein.Input{Balanced: true, Waiting: true, Pods: left})
		if diff := cmp.Diff(map[string]string{"new": "9999999"}, costs(d)); diff != "" || !d.Holes {
			t.Errorf("holes: %t, layers (-want +got):\n%s", d.Holes, diff)
		}
		left[0].Domain, left[0].Host = "a", "h1"
		d = scalein.Plan(scalein.Input{Balanced: true, Waiting: true, Pods: left})
		if diff := cmp.Diff(map[string]string{"new": "10000000"}, costs(d)); diff != "" || d.Holes {
			t.Errorf("holes: %t, layers (-want +got):\n%s", d.Holes, diff)
		}
	})
	t.Run("the highest layer fills a hole", func(t *testing.T) {
		d := scalein.Plan(scalein.Input{Balanced: true, Pods: pods[1:]})
		if diff := cmp.Diff(map[string]string{"a1": "10000000"}, costs(d)); diff != "" || d.Holes {
			t.Errorf("holes: %t, layers (-want +got):\n%s", d.Holes, diff)
		}
	})
}

// With a spread, a later subset goes before an earlier one, and within a subset the highest
// layers go first. The surplus of a subset are its highest layers.
func TestLayersOfSubsets(t *testing.T) {
	pods := of("a", apod("x0", "x", "h"), apod("x1", "x", "h"), apod("x2", "x", "h"), apod("y0", "y", "i"))
	pods = append(pods, of("b", apod("x3", "x", "h"))...)
	pods = append(pods, apod("none", "x", "h"))
	d := scalein.Plan(scalein.Input{Subsets: []scalein.Subset{{Name: "a", Max: new(int32(3))}, {Name: "b"}}, Balanced: true, Pods: pods})
	want := map[string]string{
		"x0": "20000000", "y0": "20000000", "x1": "19999999", "x2": "-10000002", "x3": "10000000", "none": "-30000000",
	}
	if diff := cmp.Diff(want, costs(d)); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

// The largest spread with the most layers fits into the 32 bits of a cost.
func TestTheLargestCostsAreValid(t *testing.T) {
	var subsets []scalein.Subset
	for i := range 64 {
		subsets = append(subsets, scalein.Subset{Name: strconv.Itoa(i), Max: new(int32(0))})
	}
	first, last, none := apod("first", "x", "h"), apod("last", "x", "h"), apod("none", "x", "h")
	first.Subset, last.Subset = "0", "63"
	in := scalein.Input{Subsets: subsets, Balanced: true, Pods: []scalein.Pod{first, last, none}}
	in.Subsets[0].Max = nil
	for pod, cost := range costs(scalein.Plan(in)) {
		if _, valid := scalein.Parse(cost); !valid {
			t.Errorf("cost %s of pod %s is invalid", cost, pod)
		}
	}
}

// A cost is read as Kubernetes reads it.
func TestParse(t *testing.T) {
	for text, want := range map[string]int32{"7": 7, "-7": -7, "0": 0, "2147483647": 2147483647} {
		if got, valid := scalein.Parse(text); got != want || !valid {
			t.Errorf("%q is %d (valid: %t), want %d", text, got, valid, want)
		}
	}
	for _, text := range []string{"", "+7", "007", "2147483648", "low", " 7"} {
		if got, valid := scalein.Parse(text); got != 0 || valid {
			t.Errorf("%q is %d (valid: %t), want it invalid", text, got, valid)
		}
	}
}
