package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/test/disruptions"
)

// Times of a schedule: it starts, is disturbed, and comes to rest.
const (
	starting  = 15 * time.Second
	disturbed = 90 * time.Second
	resting   = 150 * time.Second
)

// script starts all processes of a schedule and returns its end.
func (c *cluster) script() time.Time {
	begin := c.now
	c.workloadsAndBudgets()
	c.start(0, c.lead)
	c.start(0, c.collect)
	for _, r := range c.replicas {
		c.start(0, r.drift)
	}
	last := starting + disturbed
	c.rests = begin.Add(last)
	for range 2 + c.random.IntN(4) {
		node, who := "n"+strconv.Itoa(c.random.IntN(4)), c.random.IntN(3)
		c.start(c.between(starting, last), func(p *process) { c.drain(p, node, "drain-"+strconv.Itoa(who)) })
	}
	if c.sometimes(0.4) {
		choice := [][2]string{{"app", "web"}, {"all", "yes"}, {"tier", "0"}}[c.random.IntN(3)]
		c.pdb = &pdb{key: choice[0], value: choice[1], most: int32(c.random.IntN(3)), disrupted: map[string]time.Time{}}
		c.start(0, c.disruptionController)
	}
	for _, what := range []struct {
		most int
		run  func(*process)
	}{
		{8, func(p *process) { c.request(p, budget.Delete, "someone") }},
		{4, func(p *process) { c.request(p, budget.Update, "someone") }},
		{2, func(p *process) { c.request(p, budget.Resize, "someone") }},
		{3, c.inPlace},
		{3, func(p *process) { c.request(p, budget.Preemption, scheduler) }},
		{3, c.crash},
		{2, func(*process) { c.scale("web", func(w *workload) { w.image++ }) }},
		{3, func(*process) { c.scale("web", func(w *workload) { w.replicas = c.random.IntN(8) }) }},
		{3, c.scaleSingle},
		{2, func(*process) { c.scale("web", func(w *workload) { w.replicas = 0 }) }},
		{1, func(p *process) { c.orphan(p, "web") }},
		{2, c.give},
		{4, c.kill},
		{3, func(p *process) { c.leader = c.random.IntN(2) }},
		{2, c.lateBudget},
		{2, c.remake},
		{2, func(p *process) { c.cordon(p, "n"+strconv.Itoa(c.random.IntN(4))) }},
		{1, func(p *process) { c.endNode(p, "n"+strconv.Itoa(c.random.IntN(4))) }},
		{1, func(p *process) { c.outage(p, "n"+strconv.Itoa(c.random.IntN(4))) }},
	} {
		for range c.random.IntN(what.most + 1) {
			c.start(c.between(starting, last), what.run)
		}
	}
	return begin.Add(last + resting)
}

// workloadsAndBudgets makes one or two workloads, now and then some of one replica or none, and budgets that share pods.
func (c *cluster) workloadsAndBudgets() {
	for _, name := range []string{"web", "db"}[:1+c.random.IntN(2)] {
		c.workload(name, name, c.random.IntN(8))
	}
	if c.sometimes(0.2) {
		for range 1 + c.random.IntN(3) {
			c.bare()
		}
	}
	choices := [][2]string{{"app", "web"}, {"app", "db"}, {"tier", "0"}, {"tier", "1"}, {"all", "yes"}}
	c.random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
	if c.sometimes(0.3) {
		choices[0] = [2]string{"app", "single"}
		for i := range 2 + c.random.IntN(5) {
			c.workload("single-"+strconv.Itoa(i), "single", 1-c.random.IntN(8)/7)
		}
	}
	for _, choice := range choices[:1+c.random.IntN(3)] {
		c.budget(choice)
	}
}

// workload makes a workload, whose pods have further labels than its template.
func (c *cluster) workload(name, app string, replicas int) {
	of := kinds[c.random.IntN(len(kinds))]
	if c.sometimes(0.1) {
		of = deployments
	}
	c.makeWorkload(name, app, replicas, of)
}

// makeWorkload makes a workload of a kind, and starts its controller.
func (c *cluster) makeWorkload(name, app string, replicas int, of kind) {
	w := c.writeWorkload(c.now, workload{
		name: name, kind: of, replicas: replicas, keeps: c.sometimes(0.5), labels: map[string]string{"app": app, "all": "yes"},
	})
	c.record("someone", "create", w.kind.resource, "", name, w.version).Workload = w.shown()
	stable := w.kind.name == "StatefulSet" || c.sometimes(0.3)
	tier := func() map[string]string {
		return map[string]string{"app": app, "tier": strconv.Itoa(c.random.IntN(2)), "all": "yes"}
	}
	slow := c.between(time.Second, 15*time.Second)
	switch {
	case of == deployments:
		c.start(0, func(p *process) { c.recreate(p, name, tier, slow) })
		return
	case of.name == "Job" && c.sometimes(0.5):
		c.start(0, func(p *process) { c.expire(p, name) })
	}
	c.start(0, func(p *process) { c.control(p, name, stable, tier, slow) })
}

// budget makes a budget. A budget of a tier has a number that must be available, because its
// part of a workload has no size.
func (c *cluster) budget(choice [2]string) {
	b := disruptions.Budget{UID: c.uid("budget"), Namespace: namespace, Selector: selector(choice[0], choice[1])}
	b.Name = b.UID
	number := func(values ...intstr.IntOrString) *intstr.IntOrString { return &values[c.random.IntN(len(values))] }
	if choice[0] == "tier" || c.sometimes(0.3) {
		b.MinAvailable = number(intstr.FromInt32(1), intstr.FromInt32(2))
	} else {
		b.MaxUnavailable = number(intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("25%"), intstr.FromString("60%"))
	}
	b.KeepPlace, b.ProtectUnready = c.sometimes(0.3), c.sometimes(0.3)
	if c.sometimes(0.2) {
		b.Vectors = map[disruptions.Vector]string{disruptions.NodeEnd: string(budget.Check)}
	}
	c.writeBudget(c.now, b)
	shown := b
	c.record("someone", "create", "podunavailablebudgets", "", b.Name, c.version).Budget = &shown
}

func (c *cluster) lateBudget(*process) {
	if c.sometimes(0.5) {
		c.budget([2]string{"all", "yes"})
		return
	}
	c.budget([2]string{"tier", fmt.Sprint(c.random.IntN(2))})
}

// bare makes a pod of no workload, which nothing makes again.
func (c *cluster) bare() {
	app := []string{"web", "db"}[c.random.IntN(2)]
	labels := map[string]string{"app": app, "tier": strconv.Itoa(c.random.IntN(2)), "all": "yes"}
	c.create(workload{keeps: c.sometimes(0.5), kind: kind{controller: "someone"}}, "", labels, 0, 10*time.Second)
}

// remake deletes a budget and makes it again, as tools do that replace objects.
func (c *cluster) remake(p *process) {
	uids := slices.Sorted(maps.Keys(c.budgets))
	b := c.budgets[uids[c.random.IntN(len(uids))]]
	if b.Gone {
		return
	}
	b.Gone = true
	c.writeBudget(c.now, b)
	gone := b
	c.record("someone", "delete", "podunavailablebudgets", "", b.Name, c.version).Budget = &gone
	if c.variant == Forgetful {
		for name, known := range c.books {
			c.swap(c.now, ledger.Book{Name: name, Seen: known.Seen}, known.version)
		}
	}
	p.sleep(p.between(0, 3*time.Second))
	b.UID, b.Gone = c.uid("budget"), false
	c.writeBudget(c.now, b)
	made := b
	c.record("someone", "create", "podunavailablebudgets", "", b.Name, c.version).Budget = &made
}

// scaleSingle changes a workload of one replica or none into the other.
func (c *cluster) scaleSingle(*process) {
	name := "single-" + strconv.Itoa(c.random.IntN(6))
	if _, known := c.workloads[name]; known {
		c.scale(name, func(w *workload) { w.replicas = 1 - w.replicas })
	}
}

// request is a single request for any pod. A person who deletes pods may try again.
func (c *cluster) request(p *process, v budget.Vector, user string) {
	victim := c.any()
	if victim == nil {
		return
	}
	q := call{vector: v, user: user, name: victim.name, dryRun: c.sometimes(0.1)}
	for range 1 + c.random.IntN(4) {
		if code := c.do(p, q); code == ok || code == missing {
			return
		}
		p.sleep(p.between(time.Second, 8*time.Second))
	}
}

// lead is the loop of the leader, whichever replica that is.
func (c *cluster) lead(p *process) {
	for {
		if r := c.replicas[c.leader]; r.up {
			r.observe(p)
		}
		p.sleep(p.between(50*time.Millisecond, 500*time.Millisecond))
	}
}

// drift changes how far the caches of a replica are behind. They never go back.
func (r *replica) drift(p *process) {
	for {
		r.refresh()
		r.lag = p.between(0, 100*time.Millisecond)
		if p.sometimes(0.15) {
			r.lag = p.between(0, MostLag)
		}
		p.sleep(p.between(500*time.Millisecond, 5*time.Second))
	}
}

// kill ends a replica, which starts again later.
func (c *cluster) kill(p *process) {
	r := c.replicas[c.random.IntN(len(c.replicas))]
	if !r.up {
		return
	}
	r.up = false
	p.sleep(p.between(500*time.Millisecond, 10*time.Second))
	r.boot()
}
