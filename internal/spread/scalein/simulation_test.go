package scalein_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// history is one ReplicaSet, its nodes, and perhaps Limpet.
type history struct {
	random   *rand.Rand
	now      time.Time
	zones    int
	hosts    int // of each zone
	costs    bool
	pods     []*live
	created  int
	writes   int
	skew     []int // after each scale-in
	hostSkew []int // the largest one within a zone, after each scale-in
}

// histories is small by default, because other tests wait for the CPU.
var histories = flag.Int("histories", 500, "`number` of histories that TestScaleInKeepsTheSpread runs")

// TestScaleInKeepsTheSpread runs random histories of one ReplicaSet: it grows, shrinks, loses
// pods and whole nodes, and its containers restart. New pods get a place as topologySpreadConstraints
// with maxSkew 1 ask for. After each scale-in two zones differ by one pod at most, however many
// pods go. The same histories without costs show what Kubernetes does alone.
func TestScaleInKeepsTheSpread(t *testing.T) {
	with, without := run(true), run(false)
	t.Logf("%d histories, %d scale-ins, %d pods", *histories, len(with.skew), with.created)
	t.Logf("with costs:    worst skew of zones %d, %.2f%% of scale-ins above 1; of the hosts of a zone %d, %.2f%%; %.3f writes per pod",
		slices.Max(with.skew), above(with.skew), slices.Max(with.hostSkew), above(with.hostSkew), float64(with.writes)/float64(with.created))
	t.Logf("without costs: worst skew of zones %d, %.2f%% of scale-ins above 1; of the hosts of a zone %d, %.2f%%",
		slices.Max(without.skew), above(without.skew), slices.Max(without.hostSkew), above(without.hostSkew))
	if worst := slices.Max(with.skew); worst > 1 {
		t.Errorf("the worst skew after a scale-in is %d, want 1 at most", worst)
	}
	if perPod := float64(with.writes) / float64(with.created); perPod > 1.2 {
		t.Errorf("%.3f writes per pod, want 1.2 at most", perPod)
	}
	if slices.Max(without.skew) < 3 || len(with.skew) < *histories {
		t.Errorf("without costs the worst skew is %d in %d scale-ins: the histories test little", slices.Max(without.skew), len(with.skew))
	}
}

// above is the percentage of the values that are above 1.
func above(skew []int) float64 {
	n := 0
	for _, s := range skew {
		if s > 1 {
			n++
		}
	}
	return 100 * float64(n) / float64(len(skew))
}

// run sums all histories up.
func run(costs bool) *history {
	sum := &history{}
	for seed := range uint64(*histories) {
		r := rand.New(rand.NewPCG(seed, 0))
		h := &history{random: r, now: time.Unix(1e9, 0), zones: 2 + r.IntN(4), hosts: 1 + r.IntN(6), costs: costs}
		h.live()
		sum.created, sum.writes = sum.created+h.created, sum.writes+h.writes
		sum.skew, sum.hostSkew = append(sum.skew, h.skew...), append(sum.hostSkew, h.hostSkew...)
	}
	return sum
}

// live is one history.
func (h *history) live() {
	h.grow(3 + h.random.IntN(40))
	for range 40 {
		h.now = h.now.Add(time.Duration(h.random.Int64N(int64(3 * time.Hour))))
		switch share := h.random.Float64(); h.random.IntN(8) {
		case 0, 1:
			h.grow(1 + int(share*10))
		case 2, 3, 4:
			h.shrink(1 + int(share*float64(len(h.pods)-1)))
		case 5:
			h.lose(func(i int, _ *live) bool { return i == int(share*float64(len(h.pods))) })
		case 6:
			host := h.pods[int(share*float64(len(h.pods)))].host
			h.lose(func(_ int, p *live) bool { return p.host == host })
		case 7:
			h.pods[int(share*float64(len(h.pods)))].restarts++
		}
		if len(h.pods) < 3 {
			h.grow(20)
		}
	}
}

// grow adds pods, one after the other, and lets Limpet see some of them together.
func (h *history) grow(n int) {
	for range n {
		h.add()
		if h.random.IntN(3) == 0 {
			h.plan(true)
		}
	}
	h.plan(false)
}

// add creates a pod and binds it as the scheduler does: to a zone with the fewest pods, and
// usually to a host with the fewest pods.
func (h *history) add() {
	h.created++
	h.now = h.now.Add(time.Duration(h.random.Int64N(int64(time.Second))))
	p := &live{uid: fmt.Sprintf("%016x", h.random.Uint64()), running: true, ready: true, created: h.now, since: h.now.Add(time.Second)}
	zone := h.least(h.zones, func(i int) int { return h.in(fmt.Sprint(i), "") })
	host := h.least(h.hosts, func(i int) int { return h.in(fmt.Sprint(zone), fmt.Sprint(zone, "-", i)) })
	if h.random.IntN(5) == 0 { // it is only a preference
		host = h.random.IntN(h.hosts)
	}
	p.zone, p.host = fmt.Sprint(zone), fmt.Sprint(zone, "-", host)
	h.pods = append(h.pods, p)
}

// least is one of the places with the fewest pods.
func (h *history) least(n int, pods func(int) int) (best int) {
	order := h.random.Perm(n)
	best = order[0]
	for _, i := range order {
		if pods(i) < pods(best) {
			best = i
		}
	}
	return best
}

// in counts the pods of a zone, or of a host.
func (h *history) in(zone, host string) (n int) {
	for _, p := range h.pods {
		if p.zone == zone && (host == "" || p.host == host) {
			n++
		}
	}
	return n
}

// lose removes pods, which the ReplicaSet replaces at once.
func (h *history) lose(gone func(int, *live) bool) {
	var left []*live
	for i, p := range h.pods {
		if !gone(i, p) {
			left = append(left, p)
		}
	}
	lost := len(h.pods) - len(left)
	h.pods = left
	h.plan(true)
	h.grow(lost)
}

// shrink is a scale-in. Some pods may have no node yet; the scheduler binds those that stay later.
func (h *history) shrink(n int) {
	pending := h.random.IntN(4)
	for i := range pending {
		h.pods = append(h.pods, &live{uid: fmt.Sprint("pending-", i), created: h.now})
	}
	h.pods = victims(h.pods, h.now)[n:]
	pending = max(pending-n, 0)
	h.pods = h.pods[pending:] // they go first, and so they are at the front
	h.skew = append(h.skew, spreadOf(h.pods, h.zones, func(p *live) string { return p.zone }))
	worst := 0
	for zone := range h.zones {
		of := slices.DeleteFunc(slices.Clone(h.pods), func(p *live) bool { return p.zone != fmt.Sprint(zone) })
		worst = max(worst, spreadOf(of, h.hosts, func(p *live) string { return p.host }))
	}
	h.hostSkew = append(h.hostSkew, worst)
	h.grow(pending)
}

// spreadOf is the difference between the fullest and the emptiest of some domains.
func spreadOf(pods []*live, domains int, domain func(*live) string) int {
	counts := map[string]int{}
	for _, p := range pods {
		counts[domain(p)]++
	}
	least, most := len(pods), 0
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	if len(counts) < domains {
		least = 0
	}
	return most - least
}

// plan lets Limpet write the costs.
func (h *history) plan(waiting bool) {
	if !h.costs {
		return
	}
	in := scalein.Input{Balanced: true, Waiting: waiting}
	byName := map[string]*live{}
	for _, p := range h.pods {
		byName[p.uid] = p
		in.Pods = append(in.Pods, scalein.Pod{
			Name: p.uid, Bound: true, Domain: p.zone, Host: p.host, Running: p.running, Ready: p.ready, Since: p.since, Created: p.created,
			Cost: p.cost, Mark: p.mark,
		})
	}
	for _, write := range scalein.Plan(in).Writes {
		h.writes++
		byName[write.Pod].cost, byName[write.Pod].mark = write.Cost, write.Cost
	}
}
