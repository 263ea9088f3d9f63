package scalein_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// percentages are subsets with these maxima.
func percentages(of ...int32) (subsets []scalein.Subset) {
	for i, p := range of {
		subsets = append(subsets, scalein.Subset{Name: fmt.Sprint("s", i), Max: &p, Percent: true})
	}
	return subsets
}

// most is how many pods a subset takes in a workload of some size.
func most(s scalein.Subset, size int) int {
	if s.Max == nil {
		return size
	}
	return (int(*s.Max)*size + 99) / 100
}

// filled is how many pods of a new workload of some size each subset gets.
func filled(subsets []scalein.Subset, size int) (counts []int) {
	left := size
	for _, s := range subsets {
		counts = append(counts, min(most(s, size), left))
		left -= counts[len(counts)-1]
	}
	return counts
}

// With percentages, a scale-in to any size leaves each subset as many pods as a new workload of that
// size would have there. The costs are written once, and no pod is written while others go.
func TestAScaleInKeepsPercentages(t *testing.T) {
	h := &shares{random: rand.New(rand.NewPCG(1, 2)), now: time.Unix(1e9, 0), subsets: percentages(30, 70)}
	h.grow(20)
	h.plan()
	for _, step := range []struct {
		size int
		want []int
	}{{20, []int{6, 14}}, {10, []int{3, 7}}, {5, []int{2, 3}}, {3, []int{1, 2}}, {1, []int{1, 0}}} {
		h.shrink(len(h.pods) - step.size)
		if diff := cmp.Diff(step.want, h.counts()); diff != "" {
			t.Errorf("pods of subsets with 30%% and 70%% of %d (-want +got):\n%s", step.size, diff)
		}
		if h.plan(); h.writes != 20 {
			t.Errorf("%d writes for 20 pods", h.writes)
		}
	}
}

// TestAnyScaleInKeepsAnyPercentages runs random histories of workloads with random percentages, which
// grow, lose pods and shrink by any number of pods. After each scale-in two subsets have what a new
// workload would have. More subsets cannot: as maxima are rounded up, a larger workload has fewer pods in
// the last one. There each subset beyond the second makes a difference of one pod at most. With the
// balanced order, the zones of a subset differ by one pod at most.
func TestAnyScaleInKeepsAnyPercentages(t *testing.T) {
	for seed := range uint64(*histories) / 4 {
		r := rand.New(rand.NewPCG(seed, 7))
		h := &shares{random: r, now: time.Unix(1e9, 0), balanced: r.IntN(2) == 0}
		left := int32(100)
		for range 1 + r.IntN(4) {
			p := r.Int32N(left + 1)
			h.subsets = append(h.subsets, percentages(p)...)
			left -= p
		}
		h.subsets = append(h.subsets, percentages(left)...)
		for i := range h.subsets {
			h.subsets[i].Name = fmt.Sprint("s", i)
		}
		if r.IntN(2) == 0 {
			h.subsets[len(h.subsets)-1].Max = nil
		}
		h.grow(1 + r.IntN(60))
		for range 20 {
			switch h.plan(); h.random.IntN(3) {
			case 0:
				h.grow(r.IntN(20))
			case 1:
				h.lose()
			case 2:
				h.shrink(r.IntN(len(h.pods)))
				if problem := h.problem(); problem != "" {
					t.Fatalf("seed %d, percentages %v: %s", seed, h.maxima(), problem)
				}
			}
		}
		if perPod := float64(h.writes) / float64(h.created); perPod > 2 {
			t.Errorf("seed %d: %.2f writes per pod, want 2 at most", seed, perPod)
		}
	}
}

// shares is one ReplicaSet with percentages.
type shares struct {
	random   *rand.Rand
	now      time.Time
	subsets  []scalein.Subset
	balanced bool
	pods     []*live // the zone is "subset/zone"
	created  int
	writes   int
}

const zonesOfSubset = 3

func (h *shares) counts() (counts []int) {
	for _, s := range h.subsets {
		counts = append(counts, len(h.in(s.Name)))
	}
	return counts
}

func (h *shares) in(subset string) (in []*live) {
	for _, p := range h.pods {
		if p.host == subset {
			in = append(in, p)
		}
	}
	return in
}

func (h *shares) maxima() (maxima []int) {
	for _, s := range h.subsets {
		maxima = append(maxima, most(s, 100))
	}
	return maxima
}

// grow adds pods as the spread places them: into the first subset with a free slot, and there into a
// zone with the fewest pods.
func (h *shares) grow(n int) {
	size := len(h.pods) + n
	for range n {
		h.created++
		i := slices.IndexFunc(h.subsets, func(s scalein.Subset) bool { return len(h.in(s.Name)) < most(s, size) })
		in, zones := h.in(h.subsets[i].Name), make([]int, zonesOfSubset)
		for _, p := range in {
			zones[p.zone[0]-'0']++
		}
		h.now = h.now.Add(time.Duration(h.random.Int64N(int64(time.Minute))))
		h.pods = append(h.pods, &live{
			uid: fmt.Sprintf("%016x", h.random.Uint64()), host: h.subsets[i].Name, zone: fmt.Sprint(slices.Index(zones, slices.Min(zones))),
			running: true, ready: true, created: h.now, since: h.now.Add(time.Second),
		})
	}
}

// lose removes a pod, which is replaced.
func (h *shares) lose() {
	h.pods = slices.Delete(h.pods, 0, 1)
	h.grow(1)
}

func (h *shares) shrink(n int) { h.pods = victims(h.pods, h.now)[n:] }

// problem is what is wrong after a scale-in.
func (h *shares) problem() string {
	counts, fresh := h.counts(), filled(h.subsets, len(h.pods))
	for i, s := range h.subsets {
		if off := max(len(h.subsets)-2, 0); counts[i] > most(s, len(h.pods))+off || counts[i] < fresh[i]-off {
			return fmt.Sprintf("the subsets have %v of %d pods, a new workload has %v", counts, len(h.pods), fresh)
		}
		zone := func(p *live) string { return p.zone }
		if skew := spreadOf(h.in(s.Name), zonesOfSubset, zone); h.balanced && skew > 1 {
			return fmt.Sprintf("the zones of subset %s differ by %d pods", s.Name, skew)
		}
	}
	return ""
}

func (h *shares) plan() {
	in := scalein.Input{Subsets: h.subsets, Balanced: h.balanced}
	byName := map[string]*live{}
	for _, p := range h.pods {
		byName[p.uid] = p
		in.Pods = append(in.Pods, scalein.Pod{
			Name: p.uid, Subset: p.host, Bound: true, Domain: p.zone, Host: p.zone, Running: true, Ready: true,
			Since: p.since, Created: p.created, Cost: p.cost, Mark: p.mark,
		})
	}
	for _, write := range scalein.Plan(in).Writes {
		h.writes++
		byName[write.Pod].cost, byName[write.Pod].mark = write.Cost, write.Cost
	}
}
