package holders

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Across finds addresses that sandboxes of two nodes have at the same time: an address can follow its pod.
type Across struct {
	mutex sync.Mutex
	last  map[string]look // of each node
}

// look is one look into all sandboxes of a node.
type look struct {
	begin, end time.Time
	has        map[holding]bool
}

// holding is an address in a network namespace.
type holding struct {
	netns string
	addr  netip.Addr
}

// NewAcross returns an Across that has seen nothing.
func NewAcross() *Across { return &Across{last: map[string]look{}} }

// Look tells what was seen on a node, and returns one line for each address that it had all the time between two looks, while a
// look at another node showed the address there.
func (a *Across) Look(node string, seen []Sighting, begin, end time.Time) (found []string) {
	now := look{begin: begin, end: end, has: map[holding]bool{}}
	for _, s := range seen {
		for _, addr := range s.Addrs {
			now.has[holding{s.NetNS, addr}] = true
		}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	before := a.last[node]
	a.last[node] = now
	for other, l := range a.last {
		if other == node || before.end.IsZero() || l.begin.Before(before.end) || l.end.After(begin) {
			continue // not between the two looks
		}
		for h := range l.has {
			for own := range now.has {
				if own.addr == h.addr && before.has[own] {
					found = append(found, fmt.Sprintf("%s is in %s, and on %s in %s", h.addr, own.netns, other, h.netns))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}
