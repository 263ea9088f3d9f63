package pin

import "time"

// Rate is some events at once, and then one in each interval.
type Rate struct {
	Burst int
	Every time.Duration
}

// bucket counts the events of a Rate. The zero bucket has none yet.
type bucket struct {
	used int       // of the burst
	from time.Time // since when the first of the used ones comes back
}

// has tells whether there may be an event now.
func (b *bucket) has(now time.Time, r Rate) bool {
	b.refill(now, r)
	return b.used < r.Burst
}

// full tells whether the bucket is as good as new.
func (b *bucket) full(now time.Time, r Rate) bool {
	b.refill(now, r)
	return b.used == 0
}

// take counts an event, right after has.
func (b *bucket) take() { b.used++ }

func (b *bucket) refill(now time.Time, r Rate) {
	if b.used == 0 || now.Before(b.from) { // a clock that was set back counts from now on
		b.from = now
		return
	}
	back := int(now.Sub(b.from) / r.Every)
	b.used = max(0, b.used-back)
	b.from = b.from.Add(time.Duration(back) * r.Every)
}
