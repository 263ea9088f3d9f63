package simulation

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
)

// karpenter is a program that ends nodes.
const karpenter = "system:serviceaccount:kube-system:karpenter"

// livingNode is a random node that is not being deleted.
func (c *cluster) livingNode() string {
	for {
		if name := "n" + strconv.Itoa(c.random.IntN(4)); !c.nodes[name].ending {
			return name
		}
	}
}

// endNode deletes a node as Karpenter does: its pods are evicted, and those that are left at the
// deadline are deleted. A new node of the name comes when no request runs.
func (c *cluster) endNode(p *process, node string) {
	for _, n := range c.nodes {
		if n.ending { // at most one node ends at a time
			return
		}
	}
	c.writeNode(nodeState{name: node, closed: true, ending: true})
	c.drain(p, node, karpenter)
	p.sleep(p.between(2*time.Second, 30*time.Second))
	running := 0
	for _, victim := range c.living(func(p *pod) bool { return p.node == node }) {
		running++
		c.start(0, func(p *process) {
			c.do(p, call{vector: budget.Delete, user: karpenter, name: victim.name})
			running--
		})
	}
	for running > 0 {
		p.sleep(time.Second)
	}
	p.sleep(2 * MostLag)
	c.writeNode(nodeState{name: node})
}

// outage cuts a node off for a while: its pods run, and are not Ready.
func (c *cluster) outage(p *process, node string) {
	pods := c.living(func(p *pod) bool { return p.node == node && p.ready })
	for _, of := range pods {
		c.status(of.uid, func(p *pod) { p.ready = false })
	}
	p.sleep(p.between(5*time.Second, 40*time.Second))
	for _, of := range pods {
		if now := c.find(of.uid); now != nil && !now.ready {
			c.recover(of.uid)
		}
	}
}

// vectorOf is the way in which a pod goes, as a replica sees it. The other ways are those of the
// request.
func (r *replica) vectorOf(q request, target *pod) budget.Vector {
	switch {
	case q.status && (!target.ready || r.variant == NoStatus):
		return budget.None
	case q.own != nil:
		return budget.VectorOf(budget.Facts{Verb: budget.VerbUpdate, User: q.user, Leaves: r.reowns(q, target), Owner: r.ownerOf(target)})
	case q.vector != budget.Delete && q.vector != budget.ScaleIn:
		return q.vector
	}
	f := budget.Facts{
		Verb: budget.VerbDelete, User: q.user, Pod: &corev1.Pod{}, NodeDeleting: r.nodes[target.node].ending,
		EndsNodes: q.user == karpenter || r.variant == AnyEnder, Foreign: target.kind.foreign(), Owner: r.ownerOf(target),
	}
	top := topOf(r.workloads, target.workload)
	f.OwnerWants, f.WorkloadWants = int32(r.wants(target.workload)), int32(r.wants(top))
	f.Intended = target.kind.name == "Job" || r.workloads[top].kind == deployments && f.OwnerWants == 0
	for _, p := range r.pods {
		if p.workload == target.workload && !p.deleting {
			f.OwnerHas++
		}
	}
	return budget.VectorOf(f)
}
