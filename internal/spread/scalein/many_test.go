package scalein_test

import (
	"fmt"
	"testing"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// many is a revision with so many pods in three zones and a hundred hosts each.
func many(pods int, balanced bool, subsets ...scalein.Subset) scalein.Input {
	in := scalein.Input{Balanced: balanced, Subsets: subsets}
	for i := range pods {
		zone := fmt.Sprint("zone-", i%3)
		pod := apod(fmt.Sprintf("web-%05d", i), zone, fmt.Sprint(zone, "-", i%100))
		if len(subsets) > 0 {
			pod.Subset = subsets[i%len(subsets)].Name
		}
		in.Pods = append(in.Pods, pod)
	}
	return in
}

// The cost of a decision grows as the number of pods does: ten times as many pods take no more than
// eleven times as many allocations. When all costs are right, none is written. A new pod is one write,
// and a second one where a pod beyond the maximum takes its place.
func TestTenThousandPodsCostTenTimesAThousand(t *testing.T) {
	var subsets []scalein.Subset
	for i := range 64 {
		subsets = append(subsets, scalein.Subset{Name: fmt.Sprint("subset-", i), Max: new(int32(100))})
	}
	for name, tc := range map[string]struct {
		balanced bool
		subsets  []scalein.Subset
	}{
		"balanced": {true, nil}, "a spread with 64 subsets": {false, subsets}, "both": {true, subsets},
	} {
		t.Run(name, func(t *testing.T) {
			few, lots := many(1000, tc.balanced, tc.subsets...), many(10_000, tc.balanced, tc.subsets...)
			small := testing.AllocsPerRun(1, func() { scalein.Plan(few) })
			large := testing.AllocsPerRun(1, func() { scalein.Plan(lots) })
			if large > 11*small {
				t.Errorf("%v allocations for 10 000 pods, and %v for 1000", large, small)
			}
			d := scalein.Plan(lots)
			if len(d.Writes) != 10_000 {
				t.Fatalf("%d writes for 10 000 new pods", len(d.Writes))
			}
			apply(lots.Pods, d)
			if d = scalein.Plan(lots); len(d.Writes) > 0 {
				t.Errorf("%d writes although all costs are right", len(d.Writes))
			}
			lots.Pods[4711].Name, lots.Pods[4711].Cost, lots.Pods[4711].Mark = "web-new", "", ""
			if d = scalein.Plan(lots); len(d.Writes) == 0 || len(d.Writes) > 2 {
				t.Errorf("%d writes for one new pod", len(d.Writes))
			}
		})
	}
}
