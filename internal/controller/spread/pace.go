package spread

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// restPerPod is how long a spread rests for each of its pods after it was looked at. A look at
// 5 000 pods takes tens of milliseconds of a CPU, and new pods wait for their subset meanwhile.
const restPerPod = 200 * time.Microsecond

// pace bounds how often large spreads are looked at. Small ones rest no longer than their events
// are gathered.
type pace struct {
	mu   sync.Mutex
	next map[types.NamespacedName]time.Time
}

// left is how long a spread still rests; 0 for one that may be looked at.
func (p *pace) left(spread types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.next[spread].Sub(now))
}

// rest begins the rest of a spread with so many pods.
func (p *pace) rest(spread types.NamespacedName, pods int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := time.Duration(pods)*restPerPod - gathering
	if rest <= 0 {
		delete(p.next, spread)
		return
	}
	if p.next == nil {
		p.next = map[types.NamespacedName]time.Time{}
	}
	p.next[spread] = now.Add(rest)
}

// forget removes a spread.
func (p *pace) forget(spread types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, spread)
}
