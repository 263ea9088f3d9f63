package simulation

import (
	"time"

	"github.com/limpet-io/limpet/pkg/budget"
	"github.com/limpet-io/limpet/test/disruptions"
)

// cordon closes a node for new pods for a while, so that its pods would lose their place.
func (c *cluster) cordon(p *process, node string) {
	c.writeNode(node, true)
	p.sleep(p.between(5*time.Second, 60*time.Second))
	c.writeNode(node, false)
}

func (c *cluster) writeNode(node string, closed bool) {
	c.version++
	c.otherChanges = append(c.otherChanges, otherChange{at: c.now, node: node, closed: closed})
	c.record("someone", "patch", "nodes", "", node, c.version).Node = &disruptions.Node{Name: node, Unschedulable: closed}
}

// placeOf is what a replica knows of the place to which a pod would return.
func (r *replica) placeOf(p *pod) budget.Place {
	place := budget.Place{Asked: p.keeps}
	if r.closed[p.node] && r.variant != NoPlace {
		place.Node = "node " + p.node + " takes no pods"
	}
	return place
}
