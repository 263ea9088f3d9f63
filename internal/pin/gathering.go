package pin

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// Rate is some events at once, and then one in each interval.
type Rate struct {
	Burst int
	Every time.Duration
}

// bucket is full at first.
func (r Rate) bucket() *rate.Limiter { return rate.NewLimiter(rate.Every(r.Every), r.Burst) }

// Pace says how long notices wait for others, and how many events there may be.
type Pace struct {
	// Returned, Reserved, Ended and Conflict are how long the first notices of a workload wait. Notices that
	// are not true any more then are dropped: of a pod that was away for some seconds, only its return is told.
	Returned, Reserved, Ended, Conflict time.Duration
	// Between is the time between two events of one reason about one workload.
	Between time.Duration
	// Late is how much later than that notices may be told where there are too many events. Later ones are left out.
	Late time.Duration
	// OfNamespace and OfAll bound the events of a namespace, and of all together.
	OfNamespace, OfAll Rate
	// KeptOfNamespace and KeptOfAll bound how many notices wait.
	KeptOfNamespace, KeptOfAll int
}

// UsualPace is the pace of the controller.
var UsualPace = Pace{
	Returned: 5 * time.Second, Reserved: 10 * time.Second, Ended: 15 * time.Second, Conflict: time.Minute,
	Between: time.Minute, Late: time.Minute,
	OfNamespace: Rate{Burst: 30, Every: 2 * time.Second}, OfAll: Rate{Burst: 300, Every: time.Second / 10},
	KeptOfNamespace: 1_000, KeptOfAll: 10_000,
}

// perDigest is how many notices of a digest are kept one by one; further ones are counted.
const perDigest = 200

func (p Pace) hold(reason string) time.Duration {
	switch reason {
	case ReasonReserved:
		return p.Reserved
	case ReasonExpired, ReasonGivenUp, ReasonReclaimed:
		return p.Ended
	case ReasonConflict:
		return p.Conflict
	}
	return p.Returned
}

// Gathering gathers the notices of workloads into digests. It is not safe for concurrent use.
type Gathering struct {
	Pace Pace

	piles  map[pileKey]*pile
	told   map[pileKey]time.Time // the last event
	spaces map[string]*waitingRoom
	all    *rate.Limiter
	kept   int
}

type pileKey struct{ namespace, reason, workload string }

// pile is notices that wait.
type pile struct {
	notices []Notice
	more    int
	due     time.Time
}

// waitingRoom is what is known of a namespace.
type waitingRoom struct {
	bucket  *rate.Limiter
	kept    int
	leftOut int
}

// Add adds a notice.
func (g *Gathering) Add(now time.Time, n Notice) {
	if g.piles == nil {
		g.piles, g.told, g.spaces = map[pileKey]*pile{}, map[pileKey]time.Time{}, map[string]*waitingRoom{}
		g.all = g.Pace.OfAll.bucket()
	}
	space := g.spaces[n.Namespace]
	if space == nil {
		space = &waitingRoom{bucket: g.Pace.OfNamespace.bucket()}
		g.spaces[n.Namespace] = space
	}
	key := pileKey{n.Namespace, n.Reason, n.Workload}
	p := g.piles[key]
	if p != nil && p.replace(n) {
		return
	}
	if g.full(space, n.Reason) || p != nil && len(p.notices) >= perDigest {
		if p != nil {
			p.more++
		} else {
			space.leftOut++
		}
		return
	}
	if p == nil {
		p = &pile{due: now.Add(g.Pace.hold(n.Reason))}
		if next := g.told[key].Add(g.Pace.Between); next.After(p.due) {
			p.due = next
		}
		g.piles[key] = p
	}
	p.notices = append(p.notices, n)
	space.kept++
	g.kept++
}

// replace puts a notice in the place of an earlier one of its pod, where events count pods: a conflict is seen by each of
// the two pods, and of a pod that ended twice the last end is told.
func (p *pile) replace(n Notice) bool {
	once := n.Reason == ReasonConflict || n.Reason == ReasonReserved || n.Reason == ReasonReturned || n.Reason == ReasonNotOwner
	i := slices.IndexFunc(p.notices, func(o Notice) bool { return once && o.Pod == n.Pod })
	if i >= 0 {
		p.notices[i] = n
	}
	return i >= 0
}

// full reports whether no further notices may wait. There is always some room for warnings.
func (g *Gathering) full(space *waitingRoom, reason string) bool {
	most, all := g.Pace.KeptOfNamespace, g.Pace.KeptOfAll
	if warns(reason) {
		most, all = most+most/10, all+all/10
	}
	return space.kept >= most || g.kept >= all
}

// Kept returns how many notices wait.
func (g *Gathering) Kept() int { return g.kept }

// Due removes the digests that are due and returns those for which there may be events now. Others
// wait. confirm says which notices are still true, and may complete them.
func (g *Gathering) Due(now time.Time, confirm func(*Notice) bool) []Digest {
	var digests []Digest
	for _, key := range g.inTurns(now) {
		space := g.spaces[key.namespace]
		p := g.piles[key]
		if g.all.TokensAt(now) < 1 || space.bucket.TokensAt(now) < 1 {
			if now.Sub(p.due) > g.Pace.Late {
				space.leftOut += len(p.notices) + p.more
				g.drop(key)
			}
			continue
		}
		g.drop(key)
		d := Digest{Reason: key.reason, Namespace: key.namespace, Workload: key.workload, More: p.more}
		for _, n := range p.notices {
			if confirm(&n) {
				d.Notices = append(d.Notices, n)
			}
		}
		if len(d.Notices) == 0 { // then nothing is known of the others
			continue
		}
		d.LeftOut, space.leftOut = space.leftOut, 0
		g.all.AllowN(now, 1)
		space.bucket.AllowN(now, 1)
		g.told[key] = now
		digests = append(digests, d)
	}
	g.forget(now)
	return digests
}

// inTurns returns the keys of the piles that are due, in turns of the namespaces. So no namespace delays the
// events of others by more than one. Warnings of a namespace come before its other events.
func (g *Gathering) inTurns(now time.Time) []pileKey {
	var due []pileKey
	for key, p := range g.piles {
		if !p.due.After(now) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b pileKey) int {
		return cmp.Or(cmp.Compare(urgency(a.reason), urgency(b.reason)), g.piles[a].due.Compare(g.piles[b].due), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.reason, b.reason), cmp.Compare(a.workload, b.workload))
	})
	return fair.InTurns(due, func(key pileKey) string { return key.namespace })
}

func urgency(reason string) int {
	if warns(reason) {
		return 0
	}
	return 1
}

func (g *Gathering) drop(key pileKey) {
	n := len(g.piles[key].notices)
	delete(g.piles, key)
	g.spaces[key.namespace].kept -= n
	g.kept -= n
}

// forget drops what has no influence any more.
func (g *Gathering) forget(now time.Time) {
	for key, at := range g.told {
		if !at.Add(g.Pace.Between).After(now) {
			delete(g.told, key)
		}
	}
	for name, space := range g.spaces {
		if space.kept == 0 && space.bucket.TokensAt(now) >= float64(g.Pace.OfNamespace.Burst) {
			delete(g.spaces, name)
		}
	}
}

// Refer returns a reference to the pod of a notice.
func (n Notice) Refer() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: n.Namespace, Name: n.Pod, UID: n.UID}
}
