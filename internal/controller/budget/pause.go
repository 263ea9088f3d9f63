package budget

import (
	"maps"
	"sync"
	"time"
)

// Pauses between two looks at one namespace grow with what a look reads: a pod or a budget takes
// some 3 µs. So the looks at a namespace take a thirtieth of the time of one worker.
const (
	pauseEach    = 100 * time.Microsecond
	shortest     = 50 * time.Millisecond // a shorter pause is none
	longestPause = pairsAgain
)

// pauses are until when namespaces are not looked at: a tenant may have ten thousand
// PodDisruptionBudgets, and each change of one asks for a look at all of them.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// left is how long the pause of a namespace still lasts.
func (p *pauses) left(namespace string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.until[namespace].Sub(now), 0)
}

// begin begins the pause after a look that read as many objects.
func (p *pauses) begin(namespace string, now time.Time, objects int) {
	pause := min(time.Duration(objects)*pauseEach, longestPause)
	if pause < shortest {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.until, func(_ string, until time.Time) bool { return until.Before(now) })
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	p.until[namespace] = now.Add(pause)
}
