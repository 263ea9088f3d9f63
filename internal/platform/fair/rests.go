package fair

import (
	"maps"
	"sync"
	"time"
)

// Rests are until when something is not done again with an object. What a tenant makes large rests longer, so that
// there is time for others. The zero value has no rests. It is safe for concurrent use.
type Rests[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
	swept time.Time
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
	if len(r.until) >= most {
		r.sweep(now)
	}
	if r.until[of].After(now) || len(r.until) >= most {
		return false
	}
	r.begin(of, now, rest)
	return true
}

func (r *Rests[K]) begin(of K, now time.Time, rest time.Duration) {
	if r.until == nil {
		r.until = map[K]time.Time{}
	}
	if r.until[of] = now.Add(rest); now.Sub(r.swept).Abs() >= time.Second {
		r.sweep(now)
	}
}

func (r *Rests[K]) sweep(now time.Time) {
	r.swept = now
	maps.DeleteFunc(r.until, func(_ K, until time.Time) bool { return !until.After(now) })
}
