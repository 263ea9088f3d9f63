package fair

import (
	"maps"
	"sync"
	"time"
)

// Rests are until when objects are not looked at again. What a tenant makes large rests longer, so that the
// leader has time for others. The zero value has no rests. It is safe for concurrent use.
type Rests[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
}

// Left returns how long the rest of an object still lasts; 0 for none.
func (r *Rests[K]) Left(of K, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.until[of].Sub(now), 0)
}

// Begin begins a rest, in place of the former one. A rest of 0 is none.
func (r *Rests[K]) Begin(of K, now time.Time, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(of, now, rest)
}

// Take begins a rest and returns true, unless the object rests, or as many rest as may.
func (r *Rests[K]) Take(of K, now time.Time, rest time.Duration, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	if _, rests := r.until[of]; rests || len(r.until) >= most {
		return false
	}
	r.begin(of, now, rest)
	return true
}

func (r *Rests[K]) begin(of K, now time.Time, rest time.Duration) {
	if r.until == nil {
		r.until = map[K]time.Time{}
	}
	r.until[of] = now.Add(rest)
	r.sweep(now)
}

func (r *Rests[K]) sweep(now time.Time) {
	maps.DeleteFunc(r.until, func(_ K, until time.Time) bool { return !until.After(now) })
}
