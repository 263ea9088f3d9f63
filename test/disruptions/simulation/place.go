package simulation

import (
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/test/disruptions"
)

// cordon closes a node for new pods for a while, so that its pods would lose their place.
func (c *cluster) cordon(p *process, node string) {
	if c.nodes[node].ending {
		return
	}
	c.writeNode(nodeState{name: node, closed: true})
	p.sleep(p.between(5*time.Second, 60*time.Second))
	if !c.nodes[node].ending {
		c.writeNode(nodeState{name: node})
	}
}

func (c *cluster) writeNode(n nodeState) {
	c.version++
	c.nodes[n.name] = n
	c.otherChanges = append(c.otherChanges, otherChange{at: c.now, node: n})
	c.record("someone", "patch", "nodes", "", n.name, c.version).Node = &disruptions.Node{Name: n.name, Unschedulable: n.closed, Deleting: n.ending}
}

// placeOf is what a replica knows of the place to which a pod would return.
func (r *replica) placeOf(p *pod) budget.Place {
	place := budget.Place{Asked: p.keeps}
	if r.nodes[p.node].closed && r.variant != NoPlace {
		place.Node = "node " + p.node + " takes no pods"
	}
	return place
}
