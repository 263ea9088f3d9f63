package disruptions

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is what a log must conform to.
type Rule string

// Rules.
const (
	// Below: no voluntary disruption takes a budget below what must be available, unless an
	// involuntary loss came first.
	Below Rule = "Below"
	// Short: no pod that runs goes voluntarily while its budget is short: a pod that is Ready and not
	// counted as available, and one that is not Ready where the budget protects such pods.
	Short Rule = "Short"
	// Stalled: no request is refused while units are free for longer than a replacement takes.
	Stalled Rule = "Stalled"
	// Order: versions and times agree on one order of all changes.
	Order Rule = "Order"
	// Place: no pod goes voluntarily that would lose a place which a budget keeps.
	Place Rule = "Place"
	// Gap: each pod is created in the log, and terminates by a request of the log, but for requests that an API
	// server did not log because it was killed.
	Gap Rule = "Gap"
)

// Violation is one place at which a log does not conform.
type Violation struct {
	Rule        Rule
	At          time.Time
	Version     uint64
	Budget, Pod string
	Text        string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: budget %q, pod %q, version %d: %s", v.Rule, clock(v.At), v.Budget, v.Pod, v.Version, v.Text)
}

// Options are the bounds of a check.
type Options struct {
	// Lag is how long a cache may not know of a loss that no request announced.
	Lag time.Duration
	// Seen, if set, returns the time up to which a watch of the observer itself had shown all changes at a given time.
	// Lag counts from there: where the API server is slow to show changes, no cache can know them.
	Seen func(time.Time) time.Time
	// Replacement is how long it may take until a unit that is free is granted: it covers the
	// entry of a request that was allowed and then failed.
	Replacement time.Duration
	// Killed are the times at which the API server had been killed. It writes a request to the log after the change is
	// in etcd, so that of the last requests before some are not in the log.
	Killed []time.Time
}

// answered is how long a request may take from the time that its object tells until it is in the log: the API server asks
// webhooks between them.
const answered = 10 * time.Second

// unlogged reports whether a request may not be in the log because the API server was killed. The time is in whole
// seconds, as objects tell it.
func (o Options) unlogged(at time.Time) bool {
	return slices.ContainsFunc(o.Killed, func(killed time.Time) bool { return !at.After(killed) && at.After(killed.Add(-answered)) })
}

// Result is the outcome of a check.
type Result struct {
	Violations []Violation
	// Disruptions are the voluntary disruptions of available pods, Losses the others, and
	// Refusals the requests that budgets refused. A log without them proves nothing.
	Disruptions, Losses, Refusals int
	// Unlogged are the creations and deletions of pods that are not in the log because the API server was killed. Such
	// a deletion counts as a loss.
	Unlogged int
}

// Check replays the events, in any order, and returns what violates the rules.
func Check(events []Event, o Options) Result {
	sorted, wrong := order(events)
	c := &checker{state: newState(), Options: o, Result: Result{Violations: wrong}}
	for _, e := range sorted {
		if e.Verb == "deletecollection" && e.Code >= 300 || e.Code < 300 && e.Resource == "pods" && e.deletes() {
			c.deletions = append(c.deletions, e)
		}
	}
	for _, e := range sorted {
		switch {
		case e.Code >= 300:
			c.refusal(e)
		case e.Pod != nil:
			c.podEvent(e)
		case e.endsUnseen():
			c.unseen(e)
		case e.Workload != nil:
			c.workloadEvent(e)
		case e.Budget != nil:
			c.budgetEvent(e)
		case e.Node != nil:
			c.nodeEvent(e)
		}
		c.settle(e)
	}
	return c.Result
}

type checker struct {
	*state
	Options
	Result
	// deletions are the requests for deletecollection that failed, and the deletions of single pods. The first may have
	// deleted pods before they failed. Of the second, those without grace write twice, and answer after the second write.
	deletions []Event
}

func (c *checker) violate(rule Rule, e Event, b *budget, pod, format string, args ...any) {
	v := Violation{Rule: rule, At: e.Done, Version: e.Version, Pod: pod, Text: fmt.Sprintf(format, args...)}
	if b != nil {
		v.Budget = b.Name
	}
	c.Violations = append(c.Violations, v)
}

// gap judges a request that the log does not show. at is its time.
func (c *checker) gap(e Event, at time.Time, text string) {
	if c.unlogged(at) {
		c.Unlogged++
		return
	}
	c.violate(Gap, e, nil, e.Pod.Name, "%s", text)
}

// podEvent applies a change of a pod.
func (c *checker) podEvent(e Event) {
	before := c.pods[e.Pod.UID]
	after := &pod{Pod: *e.Pod, started: e.Done}
	if before == nil {
		if e.Verb != "create" {
			c.gap(e, e.Pod.Created, "the pod was not created in the log")
		}
		c.pods[after.UID] = after
		c.join(after)
		if c.lacksOwner(after) {
			c.violate(Gap, e, nil, e.Pod.Name, "the log does not show the %s that owns the pod", after.Owner.Kind)
		}
		return
	}
	after.Deleting = after.Deleting || before.Deleting || e.Verb == "delete"
	after.changed, after.runs, after.given = before.changed, before.runs, before.given
	if !before.Pending {
		after.started = before.started
	}
	vector := Lost
	switch {
	case after.Deleting && !before.Deleting && !e.deletes() && !before.Finished:
		i := slices.IndexFunc(c.deletions, func(d Event) bool {
			return d.Namespace == e.Namespace && d.Received.Before(e.Done) && (d.Verb == "deletecollection" || d.Name == e.Name && d.Done.After(e.Received))
		})
		if i < 0 {
			c.gap(e, e.Pod.Deleted, "the pod terminates, and no request of the log deleted it")
			break
		}
		vector, e.Received, e.User = c.vectorOf(c.deletions[i], before), c.deletions[i].Received, c.deletions[i].User
	case after.Deleting && !before.Deleting:
		vector = c.vectorOf(e, before)
	case after.reownedBy(e.User, before):
		vector = c.giveAway(e, before, after)
	case after.Images != before.Images:
		vector, after.changed, after.runs = Update, c.known(e.Received), before.Runs
		if e.Subresource == "resize" {
			vector = Resize
		}
	case before.Ready && !after.Ready && e.Subresource == "status" && !e.observes():
		vector = Update // OpenKruise begins a change in place so
	case !after.changed.IsZero() && (after.Ready && after.Runs != after.runs || after.Infeasible):
		after.changed = time.Time{} // the containers were restarted, or stay
	}
	c.replace(e, before, after, vector)
}

// lacksOwner reports whether a budget of a pod needs the size of a workload that the log does not
// show.
func (c *checker) lacksOwner(p *pod) bool {
	if p.Owner.UID == "" || c.workloads[p.Owner.UID] != nil {
		return false
	}
	for b := range p.budgets {
		if b.needsWorkloads() {
			return true
		}
	}
	return false
}

// unseen applies an eviction, or a deletion by deletecollection.
func (c *checker) unseen(e Event) {
	for _, before := range c.pods {
		if before.Namespace == e.Namespace && before.Name == e.Name && !before.Deleting && (e.UID == "" || e.UID == before.UID) {
			after := *before
			after.Deleting = true
			c.replace(e, before, &after, c.vectorOf(e, before))
			return
		}
	}
}

// replace puts the new state of a pod in place of the old one, and judges the difference for
// each budget.
func (c *checker) replace(e Event, before, after *pod, vector Vector) {
	c.pods[after.UID] = after
	c.join(after)
	for b := range before.budgets {
		v := vector
		if !after.budgets[b] && !after.Deleting {
			v = Leave
		}
		available := before.available(b, e.Done)
		if !available && !b.Gone {
			c.short(e, b, before, v)
		}
		if b.Gone || !available || after.budgets[b] && after.available(b, e.Done) {
			continue
		}
		if !b.protects(before) || !b.judges(v) {
			c.Losses++
			b.losses = append(b.losses, e.Done)
			b.busy()
			continue
		}
		c.Disruptions++
		c.judge(e, b, before, v)
		c.place(e, b, before, v)
		if b.youngerThan(c.known(e.Received)) {
			b.losses = append(b.losses, e.Done) // no entry of this budget: other decisions could not know
		}
		b.busy()
	}
}

// judge compares what is available after a voluntary disruption with what had to be. A budget
// that asked for less, and losses that came, while the request ran, were not known to the
// decision. A pod that was not available at the decision may go, if no other decision since then
// needed the pod.
func (c *checker) judge(e Event, b *budget, before *pod, v Vector) {
	from := c.known(e.Received)
	have, need, unknown := c.current(b, e.Done), b.lowest(from, e.byController(before)), b.lost(from)
	if b.lowest(from, false) > need {
		b.losses = append(b.losses, e.Done) // below the number of the budget: other decisions do not ask for that
	}
	spare := have + unknown - need
	if ready := before.ReadySince.Add(b.Stable); !ready.After(from) {
		b.granted = append(b.granted, &grant{e.Done, spare})
	} else if spare < 0 && b.spares(ready) {
		return
	}
	if spare < 0 {
		c.violate(Below, e, b, before.Name, "%s by %s leaves %d available of %d needed; losses during the request: %d", v, e.User, have, need, unknown)
	}
}

// known returns the time up to which a decision at a given time must have known all changes.
func (c *checker) known(at time.Time) time.Time {
	if c.Seen != nil {
		if seen := c.Seen(at); seen.Before(at) {
			at = seen
		}
	}
	return at.Add(-c.Lag)
}

// short finds a pod that runs, is not available, and went voluntarily while its budget was short.
// A pod that became Ready, or was started, while the request ran, was not so at the decision.
func (c *checker) short(e Event, b *budget, before *pod, v Vector) {
	from := c.known(e.Received)
	serves := before.Ready && !before.marked() && !before.ReadySince.After(from)
	protected := b.ProtectUnready && !before.Pending && !before.started.After(from)
	if !serves && !protected || before.Deleting || before.Finished || !b.protects(before) || !b.judges(v) {
		return
	}
	if have, need, unknown := c.current(b, e.Done), b.lowest(from, e.byController(before)), b.lost(from); have+unknown < need {
		c.violate(Short, e, b, before.Name, "%s by %s of a pod that runs, while %d are available of %d needed; losses during the request: %d", v, e.User, have, need, unknown)
	}
}

// refusal looks whether requests wait for too long while each budget of the pod has a free unit
// and grants none. A unit may be free and promised to a request that is not written yet.
func (c *checker) refusal(e Event) {
	if e.Code != 429 || e.DryRun || !strings.Contains(e.Message, "admission webhook") || !e.promises() {
		return
	}
	var p *pod
	for _, other := range c.pods {
		if other.Namespace == e.Namespace && other.Name == e.Name && !other.Deleting {
			p = other
		}
	}
	if p == nil || len(p.budgets) == 0 {
		return
	}
	c.Refusals++
	var wait time.Time
	for b := range p.budgets {
		if b.free.IsZero() {
			return
		}
		if b.waits.IsZero() || e.Received.Sub(b.asked) > lapse {
			b.waits = e.Received
		}
		b.asked = e.Received
		if b.waits.After(wait) {
			wait = b.waits
		}
	}
	if e.Received.Sub(wait) > c.Replacement {
		c.violate(Stalled, e, nil, p.Name, "%s is refused to %s; units of %d budgets are free, and requests wait since %s", e.Verb, e.User, len(p.budgets), clock(wait))
	}
}

// lapse is how long after a refusal its client is taken to wait.
const lapse = 30 * time.Second

func (c *checker) workloadEvent(e Event) {
	w := *e.Workload
	if old := c.workloads[w.UID]; w.ScaleOnly || w.Gone {
		if old == nil {
			return
		}
		replicas, gone := w.Replicas, w.Gone
		if w = *old; gone {
			w.Gone = true
		} else {
			w.Replicas = replicas
		}
	}
	c.workloads[w.UID] = &w
}

func (c *checker) budgetEvent(e Event) {
	old := c.budgets[e.Budget.UID]
	if e.Budget.Gone {
		if old != nil {
			old.Gone = true
		}
		return
	}
	b := &budget{Budget: *e.Budget, workloads: map[string]bool{}}
	if old != nil {
		b = old
		b.Budget = *e.Budget
	}
	var err1, err2 error
	b.selector, err1 = selectorOf(b.Selector)
	b.ignored, err2 = selectorOf(b.Ignored)
	if err1 != nil || err2 != nil {
		c.violate(Gap, e, b, "", "%v %v", err1, err2)
		return
	}
	c.budgets[b.UID] = b
	for _, p := range c.pods {
		c.join(p)
	}
}

// settle notes what must be available, and since when units are free.
func (c *checker) settle(e Event) {
	if e.Code >= 300 {
		return
	}
	for _, b := range c.budgets {
		want, of := c.want(b), c.wanted(b)
		if n := len(b.desired); n == 0 || b.desired[n-1].value != want || b.desired[n-1].of != of {
			b.desired = append(b.desired, since{e.Done, want, of})
		}
		switch free := c.current(b, e.Done) > want; {
		case !free:
			b.busy()
		case b.free.IsZero():
			b.free = e.Done
		}
	}
}
