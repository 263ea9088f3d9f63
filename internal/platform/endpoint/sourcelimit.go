package endpoint

import (
	"net/netip"
	"slices"
	"sync"
)

// SourceLimit shares a room among source addresses. A newcomer for whom there is no room displaces
// the member that waits longest of the source that has most, if that one has more than the
// newcomer's. So however many members some sources have, another one finds room.
type SourceLimit struct {
	room int64
	own  bool // a source may also displace its own members

	mu      sync.Mutex
	used    int64
	weights map[netip.Addr]int64 // by source
	members []*Member            // the oldest first
}

// Member is in a limit until it leaves or is displaced.
type Member struct {
	limit    *SourceLimit
	source   netip.Addr
	weight   int64
	displace func()
	stays    bool
}

// NewSourceLimit returns an empty limit.
func NewSourceLimit(room int64) *SourceLimit {
	return &SourceLimit{room: room, weights: map[netip.Addr]int64{}}
}

// Enter adds a member, or returns nil where there is no room. displace is called when the
// member has to give way.
func (c *SourceLimit) Enter(source netip.Addr, weight int64, displace func()) *Member {
	m := &Member{limit: c, source: source, weight: weight, displace: displace}
	displaced, entered := c.enter(m)
	for _, d := range displaced {
		d.displace()
	}
	if !entered {
		return nil
	}
	return m
}

func (c *SourceLimit) enter(m *Member) (displaced []*Member, entered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.used+m.weight > c.room {
		victim := c.victim(m.source)
		if victim == nil {
			return displaced, false
		}
		c.remove(victim)
		displaced = append(displaced, victim)
	}
	c.members = append(c.members, m)
	c.weights[m.source] += m.weight
	c.used += m.weight
	return displaced, true
}

// victim is who gives way to a member of a source; nil for none.
func (c *SourceLimit) victim(newcomer netip.Addr) (found *Member) {
	most := c.weights[newcomer]
	for _, m := range c.members {
		weight := c.weights[m.source]
		if more := weight > most || c.own && found == nil && m.source == newcomer; more && !m.stays {
			found, most = m, weight
		}
	}
	return found
}

func (c *SourceLimit) remove(m *Member) {
	i := slices.Index(c.members, m)
	if i < 0 {
		return // it was displaced, or has left
	}
	c.members = slices.Delete(c.members, i, i+1)
	c.used -= m.weight
	if c.weights[m.source] -= m.weight; c.weights[m.source] == 0 {
		delete(c.weights, m.source)
	}
}

// weightOf is what a source has.
func (c *SourceLimit) weightOf(source netip.Addr) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.weights[source]
}

// Leave makes room. A member may leave twice.
func (m *Member) Leave() {
	m.limit.mu.Lock()
	defer m.limit.mu.Unlock()
	m.limit.remove(m)
}

// Stay keeps a member from being displaced, or ends that.
func (m *Member) Stay(stays bool) {
	m.limit.mu.Lock()
	defer m.limit.mu.Unlock()
	m.stays = stays
}
