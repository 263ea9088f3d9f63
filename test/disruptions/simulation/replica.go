package simulation

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/limpet-io/limpet/pkg/budget"
	"github.com/limpet-io/limpet/pkg/ledger"
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
	// podsAt, othersAt and booksAt count the changes that the caches know.
	podsAt, othersAt, booksAt int
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
	r.books = map[string]stored{}
	r.newest, r.podsAt, r.othersAt, r.booksAt = 0, 0, 0, 0
	r.apply(r.cluster.now)
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
		if c := r.otherChanges[r.othersAt]; c.workload.name != "" {
			r.workloads[c.workload.name] = c.workload
		} else if c.budget.Gone {
			delete(r.budgets, c.budget.UID)
		} else {
			r.budgets[c.budget.UID] = c.budget
		}
	}
}

func (r *replica) refresh() { r.apply(r.cluster.now.Add(-r.lag)) }

func (r *replica) clock() time.Time { return r.cluster.now.Add(r.skew) }

func (r *replica) version() string { return strconv.FormatInt(r.newest, 10) }

// request is what the API server asks about.
type request struct {
	vector budget.Vector
	// pod is the object that the API server has; an eviction brings the name alone.
	pod    *pod
	name   string
	user   string
	dryRun bool
}

// answer is what the API server learns.
type answer struct {
	allowed bool
	missing bool // 404
	reason  budget.Reason
	message string
}

// judge answers a call. Between its steps other processes run, and the replica may die.
func (r *replica) judge(p *process, q request) (answer, error) {
	starts, until := r.starts, p.now.Add(deadline)
	pause := func(low, high time.Duration) error {
		p.sleep(p.between(low, high))
		if !r.up || r.starts != starts {
			return errDied
		}
		if p.now.After(until) {
			return errDeadline
		}
		return nil
	}
	if err := pause(time.Millisecond, 10*time.Millisecond); err != nil {
		return answer{}, err
	}
	r.refresh()
	target := r.target(q)
	if target == nil {
		return answer{missing: true}, nil
	}
	budgets := r.covering(target)
	if len(budgets) == 0 || r.variant == Unguarded {
		return answer{allowed: true, reason: budget.ReasonUnprotected}, nil
	}
	live := false // whether books are read past the cache
	for {
		book, err := r.join(pause, budgets, live)
		if err != nil {
			return answer{}, err
		}
		if ok, err := r.await(pause, book.Book); err != nil || !ok {
			return answer{reason: "CacheBehind", message: "the cache is behind"}, err
		}
		in := r.gather(q, target, budgets, book.Book)
		d := r.plan(in)
		next, changed := r.enter(book.Book, in, d, target)
		if q.dryRun || !changed && live {
			return r.answer(d), nil
		}
		if !changed {
			live = true // an answer that writes nothing must not come from an old book
			continue
		}
		if err := pause(time.Millisecond, 8*time.Millisecond); err != nil {
			return answer{}, err
		}
		if r.put(next, book.version) {
			r.decided[d.Reason]++
			return r.answer(d), nil
		}
		live = true
		r.conflicts++
	}
}

func (r *replica) answer(d budget.Decision) answer {
	return answer{
		allowed: d.Verdict != budget.Refused, missing: d.Reason == budget.ReasonStale, reason: d.Reason, message: d.Message,
	}
}

func (r *replica) put(b ledger.Book, version int64) bool {
	if r.variant == NoCompare {
		version = r.store.books[b.Name].version
	}
	return r.store.swap(r.cluster.now, b, version)
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

// join makes the steps that lead to one book for all budgets, and returns the book.
func (r *replica) join(pause func(low, high time.Duration) error, budgets []disruptions.Budget, live bool) (stored, error) {
	var names []string
	for _, b := range budgets {
		names = append(names, b.UID)
	}
	if r.variant == NoJoin {
		names = names[:1]
	}
	known, versions := ledger.Books{}, map[string]int64{}
	read := func(name string) {
		from := r.store.books
		if !live {
			from = r.books
		}
		b, ok := from[name]
		if known[name], versions[name] = nil, 0; ok {
			c := ledger.Copy(b.Book)
			known[name], versions[name] = &c, b.version
		}
	}
	for {
		step := ledger.Next(known, names)
		if step.Do == ledger.Done {
			return stored{*known[step.Name], versions[step.Name]}, nil
		}
		if step.Do == ledger.DoRead {
			read(step.Name)
			continue
		}
		if err := pause(time.Millisecond, 8*time.Millisecond); err != nil {
			return stored{}, err
		}
		next, ok := step.New(), true
		if step.Do != ledger.DoMake {
			var other ledger.Book
			if step.Do == ledger.DoAbsorb {
				other = *known[step.Other]
			}
			next, ok = step.Apply(*known[step.Name], other, r.clock())
		}
		if ok && r.put(next, versions[step.Name]) {
			r.joins[step.Do]++
		}
		live = true
		clear(known)
	}
}

// await waits until the cache knows what the book demands.
func (r *replica) await(pause func(low, high time.Duration) error, b ledger.Book) (bool, error) {
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
	for _, b := range budgets {
		in.Budgets = append(in.Budgets, r.budgetOf(b))
	}
	return in
}

func (r *replica) podOf(p *pod) budget.Pod {
	return budget.Pod{
		UID: p.uid, Name: p.name, Ready: p.ready, Finished: p.deleting,
		Available: p.ready && !p.deleting, Serving: p.ready && !p.deleting,
	}
}

// budgetOf counts the pods of a budget, and the size of their workloads.
func (r *replica) budgetOf(b disruptions.Budget) budget.Budget {
	out := budget.Budget{Name: b.Name, UID: b.UID, MaxUnavailable: b.MaxUnavailable, MinAvailable: b.MinAvailable}
	sizes := map[string]int32{}
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		p := r.pods[uid]
		if !covers(b, p) {
			continue
		}
		sizes[p.workload] = int32(r.workloads[p.workload].replicas)
		if !p.deleting {
			out.Pods = append(out.Pods, r.podOf(p))
		}
	}
	for _, n := range sizes {
		out.Expected += n
	}
	if r.variant == NoSize {
		out.Expected = int32(len(out.Pods))
	}
	return out
}

// plan asks the code under test.
func (r *replica) plan(in budget.Input) budget.Decision {
	if r.variant == DenyAll {
		return budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonExhausted, Message: "no"}
	}
	return budget.Plan(in)
}

// enter writes the decision into the book, as far as the book changes.
func (r *replica) enter(b ledger.Book, in budget.Input, d budget.Decision, target *pod) (ledger.Book, bool) {
	changed := false
	if d.Take && r.variant != NoEntry {
		e := in.Entry()
		if r.variant == ShortEntry {
			e.Expires = in.Now.Add(5 * time.Second)
		}
		e.Version, e.Generation, e.ReadySince = strconv.FormatInt(target.version, 10), target.generation, target.readySince
		b, changed = ledger.Take(b, e)
	}
	if d.Verdict == budget.Refused && d.Reason != budget.ReasonStale {
		next, asked := ledger.Ask(b, in.Waiting())
		b, changed = next, changed || asked
	}
	return b, changed
}

// observe removes the entries that have ended, as the leader does. It looks at the entries of
// the cached book, and applies what it saw to the book as it is then.
func (r *replica) observe(p *process) {
	r.refresh()
	for _, name := range slices.Sorted(maps.Keys(r.books)) {
		seen, ok := r.seenOf(r.books[name].Book)
		if !ok {
			continue
		}
		starts := r.starts
		p.sleep(p.between(time.Millisecond, 8*time.Millisecond))
		if !r.up || r.starts != starts {
			return
		}
		now := r.store.books[name]
		if next, gone := ledger.Observe(ledger.Copy(now.Book), seen, r.clock()); now.IsRoot() && len(gone) > 0 {
			p.sleep(p.between(time.Millisecond, 8*time.Millisecond))
			if !r.up || r.starts != starts {
				return
			}
			r.put(next, now.version)
		}
	}
}

// seenOf is what the cache knows of the pods of a book's entries; false for a book without.
func (r *replica) seenOf(b ledger.Book) (ledger.Seen, bool) {
	seen := ledger.Seen{Version: r.version(), Pods: map[string]ledger.PodSeen{}}
	for uid := range b.Entries {
		p := r.pods[uid]
		if p == nil {
			seen.Pods[uid] = ledger.PodSeen{Gone: true}
			continue
		}
		s := ledger.PodSeen{Version: strconv.FormatInt(p.version, 10), Going: p.deleting, Generation: p.generation}
		if p.ready {
			s.ReadySince = p.readySince
		}
		seen.Pods[uid] = s
	}
	return seen, b.IsRoot() && len(b.Entries) > 0
}
