package simulation

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/disruptions"
)

// Limits of a call of the webhook.
const (
	deadline = 8 * time.Second
	fence    = time.Second // how long a replica waits for its cache
)

var (
	errDied     = errors.New("connection refused")
	errDeadline = errors.New("deadline exceeded")
)

// replica is one controller: its caches, its clock, and how often it was started.
type replica struct {
	*cluster
	starts int
	up     bool
	// lag is how far the caches are behind, skew how far the clock is ahead.
	lag, skew time.Duration

	pods      map[string]*pod // by UID
	newest    int64           // version of a pod
	workloads map[string]workload
	budgets   map[string]disruptions.Budget
	books     map[string]stored
	nodes     map[string]nodeState
	scales    map[string]scale // what the API server said of workloads
	// podsAt, othersAt and booksAt count the changes that the caches know.
	podsAt, othersAt, booksAt int
}

// sizeMemory is how long a replica remembers a scale.
const sizeMemory = time.Second

// scale is how many pods a workload wants, as a replica remembers for a while.
type scale struct {
	replicas int
	until    time.Time
}

func (c *cluster) newReplica() *replica {
	r := &replica{cluster: c, lag: 20 * time.Millisecond, skew: c.between(-time.Second, time.Second)}
	r.boot()
	return r
}

// boot starts the replica: its caches begin with a list of all that there is.
func (r *replica) boot() {
	r.starts++
	r.up = true
	r.pods, r.workloads, r.budgets = map[string]*pod{}, map[string]workload{}, map[string]disruptions.Budget{}
	r.books, r.nodes = map[string]stored{}, map[string]nodeState{}
	r.scales = map[string]scale{}
	r.newest, r.podsAt, r.othersAt, r.booksAt = 0, 0, 0, 0
	r.apply(r.now)
}

// apply reads the watches: all changes up to a time.
func (r *replica) apply(until time.Time) {
	for ; r.podsAt < len(r.podChanges) && !r.podChanges[r.podsAt].at.After(until); r.podsAt++ {
		p := r.podChanges[r.podsAt].pod
		r.newest = p.version
		r.pods[p.uid] = p
		if p.gone {
			delete(r.pods, p.uid)
		}
	}
	for ; r.booksAt < len(r.bookChanges) && !r.bookChanges[r.booksAt].at.After(until); r.booksAt++ {
		b := r.bookChanges[r.booksAt].book
		r.books[b.Name] = b
	}
	for ; r.othersAt < len(r.otherChanges) && !r.otherChanges[r.othersAt].at.After(until); r.othersAt++ {
		if c := r.otherChanges[r.othersAt]; c.node.name != "" {
			r.nodes[c.node.name] = c.node
		} else if c.workload.name != "" {
			r.workloads[c.workload.name] = c.workload
		} else if c.budget.Gone {
			delete(r.budgets, c.budget.UID)
		} else {
			r.budgets[c.budget.UID] = c.budget
		}
	}
}

func (r *replica) refresh() { r.apply(r.now.Add(-r.lag)) }

func (r *replica) clock() time.Time { return r.now.Add(r.skew) }

func (r *replica) version() string { return strconv.FormatInt(r.newest, 10) }

// request is what the API server asks about.
type request struct {
	vector budget.Vector
	// pod is the object that the API server has; an eviction brings the name alone.
	pod    *pod
	name   string
	user   string
	dryRun bool
	status bool
	own    func(*pod)
}

// answer is what the API server learns.
type answer struct {
	allowed bool
	missing bool // 404
	reason  budget.Reason
	message string
}

// pauser lets other processes run between two steps of a call. It returns an error when the
// replica has died meanwhile, or the call takes too long.
type pauser func(low, high time.Duration) error

func (r *replica) pauser(p *process) pauser {
	starts, until := r.starts, p.now.Add(deadline)
	return func(low, high time.Duration) error {
		p.sleep(p.between(low, high))
		if !r.up || r.starts != starts {
			return errDied
		}
		if p.now.After(until) {
			return errDeadline
		}
		return nil
	}
}

// judge answers a call. An answer that writes nothing must not come from an old book, and after
// a conflict the books are read past the cache.
func (r *replica) judge(p *process, q request) (answer, error) {
	pause := r.pauser(p)
	if err := pause(time.Millisecond, 10*time.Millisecond); err != nil {
		return answer{}, err
	}
	r.refresh()
	target := r.target(q)
	if target == nil {
		return answer{missing: true}, nil
	}
	if q.vector = r.vectorOf(q, target); q.vector == budget.None {
		return answer{allowed: true, reason: budget.ReasonUnprotected}, nil
	}
	budgets := r.covering(target)
	if len(budgets) == 0 || r.variant == Unguarded {
		return answer{allowed: true, reason: budget.ReasonUnprotected}, nil
	}
	a, err := r.decide(pause, q, target, budgets)
	if err != nil || q.dryRun || !a.allowed || target.ready {
		return a, err
	}
	return r.recheck(pause, q, target, budgets, a)
}

// recheck judges a pod again that was not Ready, if it is Ready when the book has its entry.
func (r *replica) recheck(pause pauser, q request, target *pod, budgets []disruptions.Budget, before answer) (answer, error) {
	if err := pause(time.Millisecond, 8*time.Millisecond); err != nil {
		return answer{}, err
	}
	now := r.store.pods[target.name]
	if now == nil || now.uid != target.uid || !now.ready || now.deleting {
		return before, nil
	}
	return r.decide(pause, q, now, budgets)
}

func (r *replica) decide(pause pauser, q request, target *pod, budgets []disruptions.Budget) (answer, error) {
	for live := false; ; live = true {
		a, done, err := r.attempt(pause, q, target, budgets, live)
		if done || err != nil {
			return a, err
		}
	}
}

// attempt decides once. done is false when the decision could not be entered into the book.
func (r *replica) attempt(pause pauser, q request, target *pod, budgets []disruptions.Budget, live bool) (a answer, done bool, err error) {
	book := r.open(budgets, live)
	if ok, err := r.await(pause, book.Book); err != nil || !ok {
		return answer{reason: "CacheBehind", message: "the cache is behind"}, true, err
	}
	in := r.gather(q, target, budgets, book.Book)
	d := r.plan(in)
	next, changed := r.enter(book.Book, in, d)
	if q.dryRun || !changed {
		return r.answer(d), q.dryRun || live, nil
	}
	if err := pause(time.Millisecond, 8*time.Millisecond); err != nil {
		return a, false, err
	}
	if !r.put(next, book.version) {
		r.conflicts++
		return a, false, nil
	}
	r.decided[d.Reason]++
	r.ways[q.vector]++
	if d.Reason == budget.ReasonExhausted && !target.ready {
		r.unready++
	}
	return r.answer(d), true, nil
}

func (r *replica) answer(d budget.Decision) answer {
	return answer{
		allowed: d.Verdict != budget.Refused, missing: d.Reason == budget.ReasonStale, reason: d.Reason, message: d.Message,
	}
}

// target is the pod that a request is about. The pod of an eviction is read past the cache.
func (r *replica) target(q request) *pod {
	p := q.pod
	if p == nil {
		p = r.store.pods[q.name]
	}
	return p
}

// covering returns the budgets of a pod, by their UIDs.
func (r *replica) covering(p *pod) []disruptions.Budget {
	var all []disruptions.Budget
	for _, uid := range slices.Sorted(maps.Keys(r.budgets)) {
		if covers(r.budgets[uid], p) {
			all = append(all, r.budgets[uid])
		}
	}
	return all
}

// await waits until the cache knows what the book demands.
func (r *replica) await(pause pauser, b ledger.Book) (bool, error) {
	for waited := time.Duration(0); ; waited += 100 * time.Millisecond {
		r.refresh()
		if r.variant == NoFence || b.Knows(r.version()) {
			return true, nil
		}
		if waited >= fence {
			return false, nil
		}
		if err := pause(100*time.Millisecond, 100*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// gather collects the facts from the caches.
func (r *replica) gather(q request, target *pod, budgets []disruptions.Budget, book ledger.Book) budget.Input {
	in := budget.Input{Now: r.clock(), Namespace: namespace, Vector: q.vector, By: q.user, Pod: r.podOf(target), Book: book}
	in.Version, in.Generation, in.Restarts = strconv.FormatInt(target.version, 10), target.generation, target.restarts
	in.PDBs, in.Place = r.pdbsOf(q, target), r.placeOf(target)
	for _, b := range budgets {
		in.Budgets = append(in.Budgets, r.budgetOf(b))
		in.Budgets[len(in.Budgets)-1].Leaves = q.own != nil && r.reowns(q, target)
	}
	return in
}

func (r *replica) podOf(p *pod) budget.Pod {
	changing := p.observed < p.generation
	return budget.Pod{
		UID: p.uid, Name: p.name, Ready: p.ready, Pending: p.pending, Finished: p.deleting,
		Available: p.ready && !p.deleting && !changing, Serving: p.ready && !p.deleting, Changing: changing,
	}
}

// budgetOf counts the pods of a budget, and the size of their workloads.
func (r *replica) budgetOf(b disruptions.Budget) budget.Budget {
	out := budget.Budget{Name: b.Name, UID: b.UID, MaxUnavailable: b.MaxUnavailable, MinAvailable: b.MinAvailable}
	out.Rules.KeepPlace, out.Rules.ProtectUnready = b.KeepPlace, b.ProtectUnready && r.variant != NoUnready
	if b.Vectors[disruptions.NodeEnd] != "" {
		out.Rules.Vectors = map[budget.Vector]budget.Policy{budget.NodeEnd: budget.Policy(b.Vectors[disruptions.NodeEnd])}
	}
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		if p := r.pods[uid]; covers(b, p) && !p.deleting {
			out.Pods = append(out.Pods, r.podOf(p))
			if p.workload == "" && r.variant != NoBare {
				out.Bare++
			}
		}
	}
	out.Expected = r.sizeOf(b) + int32(out.Bare)
	if r.variant == NoSize {
		out.Expected = int32(len(out.Pods))
	}
	return out
}

// sizeOf sums up the workloads of the pods of a budget, and those whose next pods the budget would cover.
func (r *replica) sizeOf(b disruptions.Budget) int32 {
	pub := &policyv1beta1.PodUnavailableBudget{}
	pub.Spec.Selector = b.Selector
	matcher, err := budget.MatcherOf(pub)
	if err != nil {
		panic(err) // a schedule has no such budget
	}
	counted := map[string]bool{}
	for _, p := range r.pods {
		if covers(b, p) {
			counted[topOf(r.workloads, p.workload)] = true
		}
	}
	for name, w := range r.workloads {
		if w.top == "" && r.variant != NoAbsent && (r.variant != NoForeign || !w.kind.foreign()) && matcher.Covers(&metav1.ObjectMeta{Labels: w.labels}, nil) {
			counted[name] = true
		}
	}
	size := 0
	for name := range counted {
		size += r.wants(name)
	}
	return int32(size)
}

// wants is how many pods a workload wants: as the cache shows it, or as its scale tells it, which is read past the cache.
func (r *replica) wants(name string) int {
	w := r.workloads[name]
	switch {
	case w.deleting || w.gone:
		return 0
	case !w.kind.scaled:
		return w.replicas
	}
	if r.now.After(r.scales[name].until) {
		r.scales[name] = scale{r.store.workloads[name].replicas, r.now.Add(sizeMemory)}
	}
	return r.scales[name].replicas
}

// plan asks the code under test.
func (r *replica) plan(in budget.Input) budget.Decision {
	if r.variant == DenyAll {
		return budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonExhausted, Message: "no"}
	}
	return budget.Plan(in)
}
