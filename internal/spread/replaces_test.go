package spread_test

import (
	"math"
	"testing"

	"github.com/limpet-io/limpet/internal/spread"
)

// A creation may wait if a subset before its own is full, and its workload has all the pods that it
// wants. The owner does not tell how many these are.
func TestReplaces(t *testing.T) {
	abc := of(inZone("a", 1), inZone("b", 2), inZone("c", -1))
	skipped := of(inZone("a", 1), inZone("b", 2), inZone("c", -1))
	skipped.Subsets[0].Unschedulable = true
	for name, tc := range map[string]struct {
		spread spread.Spread
		pods   map[string]int32
		wants  int32
		key    string
		total  int64
		want   bool
	}{
		"all pods are there":                  {abc, map[string]int32{"a": 1, "b": 2}, spread.UnknownWants, "", 3, true},
		"more pods than wanted, in an update": {abc, map[string]int32{"a": 1, "b": 2, "c": 5}, spread.UnknownWants, "", 8, true},
		"a pod is missing":                    {abc, map[string]int32{"a": 1, "b": 2}, spread.UnknownWants, "", 2, false},
		"only the first subset is full":       {abc, map[string]int32{"a": 1}, spread.UnknownWants, "", 3, true},
		"the first subset has room":           {abc, map[string]int32{"b": 2}, spread.UnknownWants, "", 3, false},
		"a full subset is skipped":            {skipped, map[string]int32{"a": 1}, spread.UnknownWants, "", 3, false},
		"the owner tells what it wants":       {abc, map[string]int32{"a": 1, "b": 2}, 3, "", 3, false},
		"the pod has an entry":                {abc, map[string]int32{"a": 1, "b": 1}, spread.UnknownWants, "again", 3, false},
	} {
		f := spread.Facts{
			Spread: tc.spread, Key: tc.key, Pods: tc.pods, Wants: tc.wants,
			Entries: []spread.Entry{{Key: "again", Subset: "b"}},
		}
		in := spread.InputOf(f)
		d := spread.Choose(in)
		if got := spread.Replaces(f, in, d, tc.total, 3); got != tc.want {
			t.Errorf("%s: %v, want %v, in subset %s", name, got, tc.want, d.Subset)
		}
		if spread.Replaces(f, in, d, math.MaxInt64, 0) != (tc.want || name == "a pod is missing") {
			t.Errorf("%s: the size decides where it must not", name)
		}
	}
}
