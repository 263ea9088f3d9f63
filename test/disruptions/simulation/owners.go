package simulation

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/budget"
)

// owned is a pod with its owners, as the API server shows them.
func owned(p pod) *corev1.Pod {
	o := &corev1.Pod{}
	for _, name := range []string{p.workload, p.also} {
		if name != "" {
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{
				APIVersion: p.kind.group + "/v1", Kind: p.kind.name, Name: name, UID: types.UID(name), Controller: new(name == p.workload),
			})
		}
	}
	return o
}

// reowns reports whether an update of the owners puts the pod into other hands.
func (r *replica) reowns(q request, target *pod) bool {
	after := *target
	q.own(&after)
	change := budget.Disruptive(owned(*target), owned(after))
	near, known := r.workloads[target.workload]
	change.Parted = change.Parted && (!known || near.deleting || near.gone) && r.variant != NoParting
	return change.Reowned(q.user)
}

// ownerOf is what a replica knows of the workload of a pod.
func (r *replica) ownerOf(p *pod) budget.OwnerState {
	w, known := r.workloads[topOf(r.workloads, p.workload)]
	switch {
	case p.workload == "":
		return budget.OwnerUnknown
	case !known || w.gone:
		return budget.OwnerGone
	case w.deleting:
		return budget.OwnerDeleting
	}
	return budget.OwnerLiving
}

// own changes the owners of a pod, and tries again while that is refused. It reports whether they were changed.
func (c *cluster) own(p *process, user, name string, tries int, change func(*pod)) bool {
	for range tries {
		switch c.do(p, call{vector: budget.Update, user: user, name: name, own: change}) {
		case ok:
			return true
		case missing:
			return false
		}
		p.sleep(p.between(time.Second, 3*time.Second))
	}
	return false
}

// give gives the pods of a workload to another owner, in steps: the other is an owner, then the controller, then the only
// owner. The other is a workload, or does not exist; then the garbage collector deletes the pods.
func (c *cluster) give(p *process) {
	first := c.any()
	if first == nil || first.workload == "" {
		return
	}
	to := "absent"
	if c.sometimes(0.3) {
		to = c.uid("successor")
		c.makeWorkload(to, first.labels["app"], c.random.IntN(4), first.kind)
	}
	pause := c.between(100*time.Millisecond, 5*time.Second)
	some := 1 + c.random.IntN(4)
	for i, victim := range c.living(func(p *pod) bool { return p.workload == first.workload }) {
		if i == some || c.now.After(c.rests) {
			return
		}
		from := victim.workload
		for _, step := range []func(*pod){
			func(p *pod) { p.also = to },
			func(p *pod) { p.workload, p.also = to, from },
			func(p *pod) { p.also = "" },
		} {
			if !c.own(p, "someone", victim.name, 4, step) {
				break
			}
			p.sleep(p.between(0, pause))
		}
	}
}

// collect is the garbage collector: it deletes pods that have owners, none of which exists.
func (c *cluster) collect(p *process) {
	exists := func(name string) bool { w, known := c.workloads[name]; return known && !w.gone }
	left := func(p *pod) bool {
		return p != nil && !p.deleting && p.workload+p.also != "" && !exists(p.workload) && !exists(p.also)
	}
	running := map[string]bool{}
	for {
		for _, found := range c.living(left) {
			if running[found.uid] {
				continue
			}
			running[found.uid] = true
			c.start(c.between(100*time.Millisecond, 10*time.Second), func(p *process) {
				for now := c.find(found.uid); left(now) && c.do(p, call{vector: budget.Delete, user: gcControl, name: now.name}) != ok; now = c.find(found.uid) {
					p.sleep(p.between(time.Second, 3*time.Second))
				}
				delete(running, found.uid)
			})
		}
		p.sleep(p.between(100*time.Millisecond, 800*time.Millisecond))
	}
}

// orphan deletes a workload without its pods. Another one adopts them, or nothing makes them again.
func (c *cluster) orphan(p *process, name string) {
	w := c.workloads[name]
	if w.kind == deployments || !w.exists() || c.sometimes(0.5) {
		return
	}
	c.scale(name, func(w *workload) { w.deleting = true })
	p.sleep(p.between(0, 2*time.Second))
	for _, left := range c.living(func(p *pod) bool { return p.workload == name }) {
		drop := func(p *pod) {
			if p.also == name {
				p.also = ""
			}
			if p.workload == name {
				p.workload, p.kind = "", kind{controller: "someone"}
			}
		}
		for !c.own(p, gcControl, left.name, 10, drop) && c.find(left.uid) != nil { // it goes on until that is done
		}
	}
	w = c.workloads[name]
	w.gone = true
	w = c.writeWorkload(c.now, w)
	c.record(gcControl, "delete", w.kind.resource, "", name, w.version).Workload = w.shown()
	if c.sometimes(0.5) {
		return
	}
	p.sleep(p.between(0, 10*time.Second))
	next := name + "-again"
	c.makeWorkload(next, name, w.replicas, w.kind)
	for _, left := range c.living(func(p *pod) bool { return p.workload == "" && p.labels["app"] == name }) {
		c.own(p, w.kind.controller, left.name, 3, func(p *pod) { p.workload, p.kind = next, w.kind })
	}
}

// recreate is the controller of a Deployment that deletes all pods of a former template before it makes others.
func (c *cluster) recreate(p *process, name string, tier func() map[string]string, slow time.Duration) {
	set := kinds[0]
	for made, image := 0, -1; ; {
		d := c.workloads[name]
		current := name + "-" + strconv.Itoa(made)
		switch old := c.workloads[current]; {
		case d.image == image:
			if old.replicas != d.replicas {
				c.scale(current, func(w *workload) { w.replicas = d.replicas })
			}
		case old.replicas > 0:
			c.scale(current, func(w *workload) { w.replicas = 0 })
		case !c.hasPods(current):
			made, image = made+1, d.image
			current = name + "-" + strconv.Itoa(made)
			w := c.writeWorkload(c.now, workload{name: current, top: name, kind: set, replicas: d.replicas, image: image, keeps: d.keeps, labels: d.labels})
			c.record(deployments.controller, "create", set.resource, "", current, w.version).Workload = w.shown()
			c.start(0, func(p *process) { c.control(p, current, false, tier, slow) })
		}
		p.sleep(p.between(100*time.Millisecond, 800*time.Millisecond))
	}
}

// hasPods reports whether a workload has pods, also such that terminate.
func (c *cluster) hasPods(name string) bool {
	for _, p := range c.pods {
		if p.workload == name {
			return true
		}
	}
	return false
}

// expire lets a Job run for a while, and then deletes its pods: its deadline is over.
func (c *cluster) expire(p *process, name string) {
	p.sleep(p.between(starting, starting+disturbed))
	w := c.workloads[name]
	if !w.exists() {
		return
	}
	for _, victim := range c.living(func(p *pod) bool { return p.workload == name }) {
		c.start(0, func(p *process) { c.do(p, call{vector: budget.Delete, user: w.kind.controller, name: victim.name}) })
	}
	c.scale(name, func(w *workload) { w.replicas = 0 })
}
