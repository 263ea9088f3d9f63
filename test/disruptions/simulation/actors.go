package simulation

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/pkg/budget"
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
	if p := c.find(uid); p == nil || p.deleting || p.image != image {
		return
	}
	c.status(uid, func(p *pod) { p.ready, p.readySince, p.pending, p.run = true, c.now, false, p.image })
}

// restart restarts the container of a changed pod.
func (c *cluster) restart(p *process, uid string, image int) {
	if now := c.find(uid); now == nil || now.image != image {
		return
	}
	c.status(uid, func(p *pod) { p.ready = false })
	p.sleep(p.between(200*time.Millisecond, 5*time.Second))
	c.makeReady(uid, image)
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
		uid: c.uid("pod"), name: name, workload: w.name, node: c.livingNode(), labels: labels, image: image, generation: 1,
		keeps: w.keeps, pending: true,
	}
	if next.name == "" {
		next.name = next.uid
	}
	written := c.write(c.now, next)
	c.record(rsControl, "create", "pods", "", written.name, written.version).Pod = written.shown()
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
			c.do(p, call{vector: v, user: rsControl, name: victim.name})
			delete(deleting, victim.uid)
		})
	}
	for {
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
		for _, old := range pods {
			if old.image < w.image && len(deleting) < 2 {
				remove(old, budget.Delete)
			}
		}
		p.sleep(p.between(100*time.Millisecond, 800*time.Millisecond))
	}
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
	if now := c.find(victim.uid); now != nil {
		c.makeReady(victim.uid, now.run)
	}
}

// scale changes the size of a workload, or its image.
func (c *cluster) scale(name string, edit func(*workload)) {
	w := c.workloads[name]
	edit(&w)
	w = c.writeWorkload(c.now, w)
	c.record("someone", "update", "replicasets", "", name, w.version).Workload = w.shown()
}
