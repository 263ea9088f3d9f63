package simulation

import (
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/test/disruptions"
)

// commitBound is how long a request may take from its admission to its write.
const commitBound = 34 * time.Second

// HTTP codes.
const (
	ok        = 200
	missing   = 404
	conflict  = 409
	refused   = 429
	failed    = 500
	timedOut  = 504
	gcControl = "system:serviceaccount:kube-system:generic-garbage-collector"
	scheduler = "system:kube-scheduler"
	kubelet   = "system:node:n"
	kruise    = "system:serviceaccount:kruise-system:kruise-manager"
)

// call is a request for one pod. The API server admits it, and writes it later.
type call struct {
	vector budget.Vector
	user   string
	name   string
	dryRun bool
	status bool       // an update of the status, which turns the pod not Ready
	own    func(*pod) // an update of the owners
}

func (q call) evicts() bool { return q.vector == budget.Evict }

// do runs a request until its answer, and returns the code.
func (c *cluster) do(p *process, q call) int {
	e := disruptions.Event{Received: p.now, User: q.user, Verb: "delete", Resource: "pods", Namespace: namespace, Name: q.name, DryRun: q.dryRun}
	switch {
	case q.evicts():
		e.Verb, e.Subresource = "create", "eviction"
	case q.status:
		e.Verb, e.Subresource = "patch", "status"
	case q.vector == budget.Resize:
		e.Verb, e.Subresource = "patch", "resize"
	case q.vector == budget.Update:
		e.Verb = "patch"
	}
	e.Code, e.Message = c.try(p, q, &e)
	e.Done = p.now
	c.events = append(c.events, e)
	return e.Code
}

// try admits and writes, again when the pod was changed in between.
func (c *cluster) try(p *process, q call, e *disruptions.Event) (code int, message string) {
	until := p.now.Add(commitBound)
	for {
		before := c.pods[q.name]
		if before == nil {
			return missing, "not found"
		}
		if !before.deleting {
			if code, message = c.admit(p, q, before); code != ok {
				return code, message
			}
			if code, message = c.checkPDB(q); code != ok {
				return code, message
			}
			p.sleep(c.commitDelay(until.Sub(p.now)))
		}
		now := c.pods[q.name]
		switch {
		case p.now.After(until) || c.sometimes(0.03):
			return timedOut, "timeout"
		case q.dryRun:
			return ok, ""
		case now == nil:
			return missing, "not found"
		case !q.evicts() && now.version != before.version:
			continue // a conflict: the API server admits the request again
		case now.uid != before.uid && c.variant != LateEviction:
			return conflict, "the object has another UID"
		}
		c.commit(p, q, *now, e)
		return ok, ""
	}
}

// commitDelay is usually short. A few requests are as slow as the API server lets them be.
func (c *cluster) commitDelay(left time.Duration) time.Duration {
	if left > 100*time.Millisecond && c.sometimes(0.15) {
		return c.between(0, left)
	}
	return c.between(0, min(max(left, 0), 10*time.Millisecond))
}

// admit calls the webhook, now and then twice.
func (c *cluster) admit(p *process, q call, before *pod) (code int, message string) {
	for calls := 1 + c.random.IntN(4)/3; calls > 0; calls-- {
		r := c.replicas[c.random.IntN(len(c.replicas))]
		if !r.up {
			if r = c.replicas[0]; !r.up {
				r = c.replicas[1]
			}
		}
		if !r.up {
			return failed, "connection refused"
		}
		ask := request{vector: q.vector, pod: before, name: q.name, user: q.user, dryRun: q.dryRun, status: q.status, own: q.own}
		if q.evicts() {
			ask.pod = nil
		}
		a, err := r.judge(p, ask)
		switch {
		case err != nil:
			return failed, err.Error()
		case a.missing:
			return missing, "not found"
		case !a.allowed:
			return refused, "admission webhook denied the request: " + a.message
		}
	}
	return ok, ""
}

// commit writes what was admitted.
func (c *cluster) commit(p *process, q call, now pod, e *disruptions.Event) {
	if now.deleting {
		return // it is terminating already
	}
	if q.own != nil {
		q.own(&now)
		written := c.write(p.now, now)
		e.Pod, e.Version = written.shown(), uint64(written.version)
		return
	}
	if q.vector == budget.Update || q.vector == budget.Resize {
		if q.status {
			now.ready, now.gated = false, true
		} else {
			now.image++
			now.generation++
		}
		written := c.write(p.now, now)
		e.Pod, e.Version = written.shown(), uint64(written.version)
		if !q.status {
			c.start(c.between(200*time.Millisecond, 2*time.Second), func(p *process) { c.change(p, written.uid, written.image, q.vector == budget.Resize) })
		}
		return
	}
	now.deleting = true
	written := c.write(p.now, now)
	if !q.evicts() {
		e.Pod, e.Version = written.shown(), uint64(written.version)
	}
	c.start(c.between(100*time.Millisecond, 4*time.Second), func(p *process) { c.finish(p, written.uid) })
}

// record writes an event of a component that no webhook is asked about.
func (c *cluster) record(user, verb, resource, subresource, name string, version int64) *disruptions.Event {
	c.events = append(c.events, disruptions.Event{
		Received: c.now, Done: c.now, User: user, Verb: verb, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
		Code: ok, Version: uint64(version),
	})
	return &c.events[len(c.events)-1]
}
