package spread_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/spread"
)

// A schedule has an API server, ReplicaSets, and two replicas of the webhook whose caches are behind. Pods are
// created and deleted, and creations are refused after the webhook has answered.
//
//	go test ./internal/spread -run TestSchedules -schedules 10000 -v
var (
	schedules = flag.Int("schedules", 60, "`number` of schedules that TestSchedules runs")
	first     = flag.Uint64("first", 1, "`seed` of the first schedule")
)

// variant is the code under test, or a broken form of it.
type variant string

const (
	sound      variant = ""
	noEntries  variant = "no entries in the book"
	noTakeover variant = "no entry is taken over"
	noSeen     variant = "an entry ends when its pod is seen, and a cache that is behind may decide"
	noCompare  variant = "the book is written without compare"
	noWait     variant = "an entry is taken over at once"
	noLinger   variant = "an entry ends when its pod is seen"
	takeNew    variant = "a new entry is taken over"
	shortEntry variant = "entries expire after 5 s"
)

// waits is how long a replica waits for its cache.
const waits = 500 * time.Millisecond

// simPod is a pod at a version.
type simPod struct {
	key, owner, subset string
	version            int64
	gone               bool // it terminates
}

// cluster is one schedule as it runs.
type cluster struct {
	*timeline
	variant  variant
	spread   spread.Spread
	mostLag  time.Duration
	refusals float64
	deletes  bool

	replicas []*replica
	version  int64
	pods     map[string]*simPod // that are active, by key
	sizes    map[string]int32   // of the ReplicaSets
	events   []podEvent
	resizes  []resize
	book     ledger.Book
	books    int // versions of the book

	outcome
}

// podEvent and resize are what caches learn, in order.
type podEvent struct {
	at  time.Time
	pod *simPod
}

type resize struct {
	at    time.Time
	owner string
	size  int32
}

// outcome is what a schedule came to.
type outcome struct {
	created, deleted, refused, taken, conflicts, unplaced int
	// overfilled counts creations beyond a maximum, and most is by how many pods at the most.
	overfilled, most int
	// misplaced are pods in a later subset at the end, although an earlier one has a free slot.
	misplaced int
}

// simulate runs the schedule of one seed.
func simulate(seed uint64, v variant, mostLag time.Duration) outcome {
	random := rand.New(rand.NewPCG(seed, 21))
	c := &cluster{
		timeline: &timeline{now: start, random: random}, variant: v, mostLag: mostLag,
		pods: map[string]*simPod{}, sizes: map[string]int32{}, book: ledger.Book{Name: "spread"},
	}
	c.spread = of(inAny("a", int32(2+random.IntN(6))), inAny("b", int32(2+random.IntN(6))), inAny("c", -1))
	c.refusals, c.deletes = []float64{0, 0.05, 0.3}[random.IntN(3)], random.IntN(3) > 0
	c.replicas = []*replica{newReplica(c), newReplica(c)}
	const lasting = 20 * time.Second
	for i := range 1 + random.IntN(2) {
		owner := fmt.Sprint("rs", i)
		c.resize(owner, int32(5+random.IntN(16)))
		c.start(c.between(0, time.Second), func(p *process) { c.control(p, owner) })
		for range 2 + random.IntN(5) {
			c.start(c.between(time.Second, lasting), func(*process) { c.resize(owner, int32(5+random.IntN(16))) })
		}
	}
	for _, r := range c.replicas {
		c.start(0, r.drift)
	}
	if c.deletes {
		for range 10 + random.IntN(40) {
			c.start(c.between(time.Second, lasting), func(*process) { c.disturb() })
		}
	}
	c.run(start.Add(lasting + 32*time.Second))
	c.misplaced = c.countMisplaced()
	return c.outcome
}

// resize changes how many pods a ReplicaSet wants. Without deletions it only grows.
func (c *cluster) resize(owner string, size int32) {
	if !c.deletes {
		size = max(size, c.sizes[owner])
	}
	c.sizes[owner] = size
	c.resizes = append(c.resizes, resize{c.now, owner, size})
}

// of returns the active pods of a ReplicaSet.
func (c *cluster) of(owner string) []*simPod {
	var all []*simPod
	for _, p := range c.pods {
		if p.owner == owner {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *simPod) int { return int(a.version - b.version) })
	return all
}

// count counts the active pods of a ReplicaSet, in one subset or in all.
func (c *cluster) count(owner, subset string) int {
	n := 0
	for _, p := range c.pods {
		if p.owner == owner && (subset == "" || p.subset == subset) {
			n++
		}
	}
	return n
}

// control is the controller of ReplicaSets. It creates missing pods in batches that double, and goes on after a
// batch has returned. After a failure it begins again.
func (c *cluster) control(p *process, owner string) {
	for {
		p.sleep(p.between(10*time.Millisecond, 150*time.Millisecond))
		missing := int(c.sizes[owner]) - c.count(owner, "")
		if missing < 0 {
			for _, pod := range c.of(owner)[:-missing] {
				c.remove(pod)
			}
		}
		for batch := 1; missing > 0; batch = min(2*batch, missing) {
			running, failed := batch, false
			for range batch {
				c.start(0, func(p *process) {
					failed = !c.create(p, owner) || failed
					running--
				})
			}
			for running > 0 {
				p.sleep(2 * time.Millisecond)
			}
			if missing -= batch; failed {
				break
			}
		}
	}
}

// create is one request. The webhook answers, now and then twice, and the API server writes or refuses later.
func (c *cluster) create(p *process, owner string) bool {
	c.version++
	key := "u" + strconv.FormatInt(c.version, 10)
	subset := ""
	for range 1 + c.random.IntN(8)/7 {
		subset = c.replicas[c.random.IntN(2)].admit(p, key, owner)
	}
	slow := 10 * time.Millisecond
	if c.sometimes(0.01) {
		slow = 30 * time.Second
	}
	p.sleep(p.between(0, slow))
	if c.sometimes(c.refusals) {
		c.refused++
		return false
	}
	c.version++
	pod := &simPod{key: key, owner: owner, subset: subset, version: c.version}
	c.pods[key] = pod
	c.events = append(c.events, podEvent{c.now, pod})
	c.created++
	c.check(pod)
	return true
}

// check counts the pods of the subset.
func (c *cluster) check(pod *simPod) {
	if pod.subset == "" {
		c.unplaced++
		return
	}
	used := c.count(pod.owner, pod.subset)
	for _, s := range c.spread.Subsets {
		if s.Name == pod.subset && s.Max != nil && used > int(*s.Max) {
			c.overfilled++
			c.most = max(c.most, used-int(*s.Max))
		}
	}
}

// remove deletes a pod.
func (c *cluster) remove(pod *simPod) {
	c.version++
	gone := *pod
	gone.version, gone.gone = c.version, true
	delete(c.pods, pod.key)
	c.events = append(c.events, podEvent{c.now, &gone})
	c.deleted++
}

// disturb deletes a random pod, or starts a replica again.
func (c *cluster) disturb() {
	if c.sometimes(0.1) {
		c.replicas[c.random.IntN(2)].boot()
		return
	}
	var all []*simPod
	for owner := range 2 {
		all = append(all, c.of(fmt.Sprint("rs", owner))...)
	}
	if len(all) > 0 {
		c.remove(all[c.random.IntN(len(all))])
	}
}

// countMisplaced is how many pods would be elsewhere if they were created again in order.
func (c *cluster) countMisplaced() int {
	if c.deletes {
		return 0 // holes are filled when pods are created, and not before
	}
	count := 0
	for owner, size := range c.sizes {
		left, has := int(size), map[string]int{}
		for _, p := range c.of(owner) {
			has[p.subset]++
		}
		for _, s := range c.spread.Subsets {
			want := left
			if s.Max != nil {
				want = min(left, int(*s.Max))
			}
			count += max(has[s.Name]-want, 0)
			left -= want
		}
	}
	return count
}

// add sums up what schedules came to.
func (o *outcome) add(other outcome) {
	o.created, o.deleted, o.refused = o.created+other.created, o.deleted+other.deleted, o.refused+other.refused
	o.taken, o.conflicts, o.unplaced = o.taken+other.taken, o.conflicts+other.conflicts, o.unplaced+other.unplaced
	o.overfilled, o.most, o.misplaced = o.overfilled+other.overfilled, max(o.most, other.most), o.misplaced+other.misplaced
}

// TestSchedules runs schedules in which the caches catch up while a replica waits.
func TestSchedules(t *testing.T) {
	var sum outcome
	for seed := *first; seed < *first+uint64(*schedules); seed++ {
		o := simulate(seed, sound, waits-20*time.Millisecond)
		if sum.add(o); o.overfilled > 0 {
			t.Fatalf("seed %d: %d pods beyond a maximum", seed, o.overfilled)
		}
	}
	t.Logf("%+v", sum)
	for what, n := range map[string]int{
		"creations": sum.created / 30, "deletions": sum.deleted / 10, "refused creations": sum.refused, "conflicts": sum.conflicts, "entries taken over": sum.taken,
	} {
		if n < *schedules {
			t.Errorf("%d %s in %d schedules test little", n, what, *schedules)
		}
	}
}

// A ReplicaSet is made smaller while one of its creations takes 24 s. It may then have a pod too many, and no more than
// one for each such creation.
func TestAScaleInDuringASlowCreation(t *testing.T) {
	if o := simulate(4052, sound, waits-20*time.Millisecond); o.overfilled != 1 || o.most != 1 {
		t.Errorf("%d pods beyond a maximum, %d at a time: the design of spreads says one", o.overfilled, o.most)
	}
}

// TestSchedulesWithSlowCaches runs schedules in which the caches are behind for longer than a replica waits. A subset
// then gets more pods than its maximum where a replica takes over the entry of a pod that it does not see.
func TestSchedulesWithSlowCaches(t *testing.T) {
	var sum, without outcome
	for seed := *first; seed < *first+uint64(*schedules); seed++ {
		sum.add(simulate(seed, sound, 3*time.Second))
		without.add(simulate(seed, noLinger, 3*time.Second))
	}
	t.Logf("%+v", sum)
	if t.Logf("%s: %+v", noLinger, without); without.overfilled <= sum.overfilled {
		t.Error("entries that stay for a while are of no use")
	}
	if sum.overfilled*150 > sum.created || sum.most > 3 {
		t.Errorf("%d of %d pods beyond a maximum, %d at a time: the documents say one in 200, and 3", sum.overfilled, sum.created, sum.most)
	}
}

// TestBrokenVariantsAreFound runs the same schedules with code that has one fault.
func TestBrokenVariantsAreFound(t *testing.T) {
	const slow, usual = waits - 20*time.Millisecond, 20 * time.Millisecond
	for v, lag := range map[variant]time.Duration{
		noEntries: usual, noCompare: usual, takeNew: usual, noSeen: slow, noWait: slow, shortEntry: slow,
	} {
		t.Run(string(v), func(t *testing.T) {
			const many = 300
			for seed := uint64(1); seed <= many; seed++ {
				if o := simulate(seed, v, lag); o.overfilled > 0 {
					t.Logf("seed %d: %d pods beyond a maximum", seed, o.overfilled)
					return
				}
			}
			t.Errorf("no pod beyond a maximum in %d schedules", many)
		})
	}
	t.Run(string(noTakeover), func(t *testing.T) {
		var with, without outcome
		for seed := uint64(1); seed <= 60; seed++ {
			with.add(simulate(seed, sound, 20*time.Millisecond))
			without.add(simulate(seed, noTakeover, 20*time.Millisecond))
		}
		if t.Logf("%d pods misplaced, and %d with entries that are taken over", without.misplaced, with.misplaced); without.misplaced < 3*with.misplaced {
			t.Error("slots of refused creations are not missed")
		}
	})
}
