package spread_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
)

// TestAssignGivesEachSubsetAtMostItsMaximum also checks that the order in which the pods are created, and which of
// them exist already, changes nothing.
func TestAssignGivesEachSubsetAtMostItsMaximum(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 13))
		in := spread.OrdinalInput{Spread: aSpread(random), Pods: map[int32]string{}, Homes: map[int32]spread.Home{}}
		in.Desired = workload.Desired{Replicas: int32(random.IntN(12)), Start: int32(random.IntN(3))}
		if random.IntN(3) == 0 {
			in.Desired.Reserved = []workload.Span{{First: 2, Last: int32(2 + random.IntN(4))}}
		}
		nodes := labs(random)
		for o := range int32(16) {
			switch random.IntN(4) {
			case 0:
				in.Pods[o] = string(rune('a' + random.IntN(5))) // some of them have more than their maximum
			case 1:
				in.Homes[o] = spread.Home{Node: nodes[random.IntN(len(nodes))]}
			}
		}
		checkWhole(t, seed, in)
		checkOrder(t, seed, in, random)
		if t.Failed() {
			return
		}
	}
}

// wanted are the ordinals that a StatefulSet wants.
func wanted(d workload.Desired) []int32 {
	var all []int32
	for o := range int32(40) {
		if d.Contains(fmt.Sprint("web-", o), 0) {
			all = append(all, o)
		}
	}
	return all
}

func checkWhole(t *testing.T, seed uint64, in spread.OrdinalInput) {
	t.Helper()
	a, used := spread.Assign(in), map[string]int32{}
	full := true
	for _, o := range wanted(in.Desired) {
		used[a.Of(o).Subset]++
	}
	for _, s := range in.Spread.Subsets {
		if s.Max != nil && used[s.Name] > *s.Max {
			t.Errorf("seed %d: %d pods in subset %s of %d", seed, used[s.Name], s.Name, *s.Max)
		}
		full = full && (s.Unschedulable || s.Max != nil && used[s.Name] >= *s.Max)
	}
	if used[""] > 0 && !full {
		t.Errorf("seed %d: %d pods without a subset, although one has a free slot: %v", seed, used[""], used)
	}
}

// checkOrder creates the missing pods in a random order.
func checkOrder(t *testing.T, seed uint64, in spread.OrdinalInput, random *rand.Rand) {
	t.Helper()
	for o, subset := range in.Pods { // pods beyond a maximum, or in a subset that is gone, may get another one
		if d := spread.Assign(in).Of(o); d.Subset != subset {
			delete(in.Pods, o)
		}
	}
	first, names := spread.Assign(in), wanted(in.Desired)
	for _, i := range random.Perm(len(names)) {
		o := names[i]
		d, before := spread.Assign(in).Of(o), first.Of(o)
		if d.Subset != before.Subset {
			t.Errorf("seed %d: ordinal %d gets %q after some others, and %q before", seed, o, d.Subset, before.Subset)
		}
		if d.Subset != "" {
			in.Pods[o] = d.Subset
		}
	}
}
