package upgrade

import (
	"fmt"
	"strings"
)

// Order is the order in which parts are upgraded.
type Order []Part

func (o Order) String() string {
	var names []string
	for _, p := range o {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// Orders returns every order of the parts.
func Orders() []Order {
	return []Order{
		{CRDs, Controller, Agent},
		{CRDs, Agent, Controller},
		{Controller, CRDs, Agent},
		{Controller, Agent, CRDs},
		{Agent, CRDs, Controller},
		{Agent, Controller, CRDs},
	}
}

// Step changes one part.
type Step struct {
	Part Part
	Up   bool
	// New are the parts that are of the newer version after the step.
	New []Part
}

func (s Step) String() string {
	way := "up"
	if !s.Up {
		way = "down"
	}
	return fmt.Sprintf("%s %s", s.Part, way)
}

// Steps returns the steps of an order, all the way up or all the way down.
func Steps(o Order, up bool) []Step {
	var steps []Step
	for i, p := range o {
		changed, kept := o[:i+1], o[i+1:]
		if !up {
			changed = kept
		}
		steps = append(steps, Step{Part: p, Up: up, New: changed})
	}
	return steps
}
