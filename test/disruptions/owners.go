package disruptions

import (
	"slices"
	"time"
)

// reownedBy reports whether a user gave a pod other owners. The garbage collector takes away those that are gone.
func (p *pod) reownedBy(user string, before *pod) bool {
	changed := p.Owner != before.Owner || !slices.Equal(p.Others, before.Others)
	return changed && !p.Deleting && user != controllers+"generic-garbage-collector"
}

// giveAway notes since when the owners of a pod do not exist, and returns the way in which it goes by that.
func (c *checker) giveAway(e Event, before, after *pod) Vector {
	switch given := c.given(after); {
	case !given:
		after.given = time.Time{}
	case before.given.IsZero():
		after.given = c.known(e.Received)
		return Leave
	}
	return Lost
}

// given reports whether a pod has owners, none of which exists.
func (c *checker) given(p *pod) bool {
	owners := append(slices.Clone(p.Others), p.Owner.UID)
	owners = slices.DeleteFunc(owners, func(uid string) bool { return uid == "" })
	return len(owners) > 0 && !slices.ContainsFunc(owners, func(uid string) bool { return c.workloads[uid] != nil && !c.workloads[uid].Gone })
}
