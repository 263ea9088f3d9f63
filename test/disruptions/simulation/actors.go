package simulation

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/budget"
)

// find returns the pod with a UID; nil when it is gone.
func (c *cluster) find(uid string) *pod {
	for _, p := range c.pods {
		if p.uid == uid {
			return p
		}
	}
	return nil
}

// status is a write of the kubelet.
func (c *cluster) status(uid string, edit func(*pod)) {
	p := c.find(uid)
	if p == nil {
		return
	}
	next := *p
	edit(&next)
	written := c.write(c.now, next)
	c.record(kubelet, "patch", "pods", "status", written.name, written.version).Pod = written.shown()
}

// makeReady makes a pod Ready whose containers have an image.
func (c *cluster) makeReady(uid string, image int) {
	if p := c.find(uid); p == nil || p.deleting || p.gated || p.image != image {
		return
	}
	c.status(uid, func(p *pod) { p.ready, p.readySince, p.pending, p.run = true, c.now, false, p.image })
}

// grace is how long a container may take to stop.
const grace = 90 * time.Second

// change is what a kubelet does after a change of a pod: it sees the change, stops the container
// after its preStop hook, and starts it again. Some containers are so fast that the pod stays Ready.
// A resize may wait for room on the node, or never be made.
func (c *cluster) change(p *process, uid string, image int, resize bool) {
	if c.sometimes(0.1) {
		p.sleep(p.between(0, 60*time.Second)) // a kubelet that is busy, or cut off
	}
	fits := !resize || c.sometimes(0.3)
	never := resize && !fits && c.sometimes(0.3)
	c.statusOf(uid, image, func(p *pod) { p.observed, p.deferred, p.infeasible = p.generation, !fits && !never, never })
	if never {
		return
	}
	if !fits {
		p.sleep(p.between(0, 60*time.Second))
		c.statusOf(uid, image, func(p *pod) { p.deferred = false })
	}
	stops, starts := 5*time.Second, 5*time.Second
	switch c.random.IntN(6) {
	case 0:
		stops = grace
	case 1:
		starts = grace
	case 2:
		p.sleep(time.Second)
		c.statusOf(uid, image, func(p *pod) { p.run, p.restarts = p.image, p.restarts+1 })
		return
	}
	p.sleep(p.between(0, stops))
	c.statusOf(uid, image, func(p *pod) { p.ready = false })
	p.sleep(p.between(200*time.Millisecond, starts))
	c.statusOf(uid, image, func(p *pod) {
		p.run, p.restarts = p.image, p.restarts+1
		if !p.gated {
			p.ready, p.readySince = true, c.now
		}
	})
}

// statusOf is a write of the kubelet about a change, unless another one came since.
func (c *cluster) statusOf(uid string, image int, edit func(*pod)) {
	if now := c.find(uid); now != nil && now.image == image {
		c.status(uid, edit)
	}
}

// inPlace changes a pod as OpenKruise does: it turns the pod not Ready by its readiness gate, changes
// the image, and opens the gate again when the container was restarted. A refusal of the first step
// ends the attempt, and a refusal of the second one is repeated.
func (c *cluster) inPlace(p *process) {
	victim := c.any()
	if victim == nil || victim.gated || c.do(p, call{vector: budget.Update, user: kruise, name: victim.name, status: true}) != ok {
		return
	}
	p.sleep(p.between(0, 3*time.Second))
	for c.find(victim.uid) != nil && c.do(p, call{vector: budget.Update, user: kruise, name: victim.name}) == refused {
		p.sleep(p.between(time.Second, 5*time.Second))
	}
	for now := c.find(victim.uid); now != nil && now.run != now.image && !now.infeasible; now = c.find(victim.uid) {
		p.sleep(time.Second)
	}
	if now := c.find(victim.uid); now != nil && now.gated {
		next := *now
		next.gated, next.ready, next.readySince = false, true, c.now
		written := c.write(c.now, next)
		c.record(kruise, "patch", "pods", "status", written.name, written.version).Pod = written.shown()
	}
}

// finish removes a pod that has terminated.
func (c *cluster) finish(_ *process, uid string) {
	p := c.find(uid)
	if p == nil {
		return
	}
	next := *p
	next.gone = true
	written := c.write(c.now, next)
	c.record(kubelet, "delete", "pods", "", written.name, written.version).Pod = written.shown()
}

// create makes a pod of a workload, which is Ready a while later.
func (c *cluster) create(w workload, name string, labels map[string]string, image int, slow time.Duration) {
	next := pod{
		uid: c.uid("pod"), name: name, workload: w.name, kind: w.kind, node: c.livingNode(), labels: labels, image: image, generation: 1, observed: 1,
		keeps: w.keeps, pending: true,
	}
	if next.name == "" {
		next.name = next.uid
	}
	written := c.write(c.now, next)
	c.record(w.kind.controller, "create", "pods", "", written.name, written.version).Pod = written.shown()
	c.start(c.between(100*time.Millisecond, slow), func(p *process) {
		if p.sometimes(0.5) {
			c.status(written.uid, func(p *pod) { p.pending = false })
			p.sleep(p.between(0, slow))
		}
		c.makeReady(written.uid, image)
	})
}

// control is the controller of a workload: it creates pods that are missing, deletes pods that
// are too many, and replaces pods of an old image.
func (c *cluster) control(p *process, name string, stable bool, tier func() map[string]string, slow time.Duration) {
	deleting := map[string]bool{}
	remove := func(victim *pod, v budget.Vector) {
		if deleting[victim.uid] {
			return
		}
		deleting[victim.uid] = true
		c.start(0, func(p *process) {
			c.do(p, call{vector: v, user: victim.kind.controller, name: victim.name})
			delete(deleting, victim.uid)
		})
	}
	for c.workloads[name].exists() {
		w := c.workloads[name]
		pods := c.living(func(p *pod) bool { return p.workload == name })
		for i := len(pods); i < w.replicas; i++ {
			next := ""
			if stable {
				if next = c.freeName(w); next == "" {
					break
				}
			}
			c.create(w, next, tier(), w.image, slow)
		}
		for i := w.replicas; i < len(pods); i++ {
			remove(pods[i], budget.ScaleIn)
		}
		for _, old := range former(pods, w.image) {
			if len(deleting) < 2 {
				remove(old, budget.Delete)
			}
		}
		p.sleep(p.between(100*time.Millisecond, 800*time.Millisecond))
	}
}

// former returns the pods of earlier images.
func former(pods []*pod, image int) (old []*pod) {
	for _, p := range pods {
		if p.image < image {
			old = append(old, p)
		}
	}
	return old
}

// freeName is the first name of a StatefulSet's pod that no pod has.
func (c *cluster) freeName(w workload) string {
	for i := range w.replicas {
		if name := fmt.Sprintf("%s-%d", w.name, i); c.pods[name] == nil {
			return name
		}
	}
	return ""
}

// drain evicts each pod of a node, as kubectl does: a refusal is repeated after 5 s.
func (c *cluster) drain(p *process, node, user string) {
	for _, victim := range c.living(func(p *pod) bool { return p.node == node }) {
		c.start(0, func(p *process) {
			c.unfinished++
			for c.find(victim.uid) != nil {
				if code := c.do(p, call{vector: budget.Evict, user: user, name: victim.name}); code == ok || code == missing {
					break
				}
				p.sleep(5 * time.Second)
			}
			c.unfinished--
		})
	}
	p.sleep(0)
}

// any returns a random living pod; nil when there is none.
func (c *cluster) any() *pod {
	pods := c.living(func(*pod) bool { return true })
	if len(pods) == 0 {
		return nil
	}
	return pods[c.random.IntN(len(pods))]
}

// crash makes a pod not Ready for a while.
func (c *cluster) crash(p *process) {
	victim := c.any()
	if victim == nil {
		return
	}
	c.status(victim.uid, func(p *pod) { p.ready = false })
	p.sleep(p.between(500*time.Millisecond, 20*time.Second))
	c.recover(victim.uid)
}

// recover makes a pod Ready that was so before. A pod whose change is on its way is made Ready by that.
func (c *cluster) recover(uid string) {
	now := c.find(uid)
	switch {
	case now == nil || now.gated || now.deleting:
	case now.deferred || now.infeasible:
		c.status(uid, func(p *pod) { p.ready, p.readySince = true, c.now })
	default:
		c.makeReady(uid, now.run)
	}
}

// scale changes the size of a workload, or its image.
func (c *cluster) scale(name string, edit func(*workload)) {
	w := c.workloads[name]
	if !w.exists() {
		return
	}
	edit(&w)
	w = c.writeWorkload(c.now, w)
	c.record("someone", "update", w.kind.resource, "", name, w.version).Workload = w.shown()
}
