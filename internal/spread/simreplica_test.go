package spread_test

import (
	"maps"
	"strconv"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/spread"
)

// replica is one webhook: its cache, and its clock.
type replica struct {
	*cluster
	// lag is how far the cache is behind, skew how far the clock is ahead.
	lag, skew time.Duration
	// podsAt and sizesAt count the changes that the cache knows.
	podsAt, sizesAt int
	newest          int64
	active          map[string]map[string]int32 // by owner and subset
	known           map[string]bool             // active pods
	seen            map[string]sight            // pods by their keys, also if they are gone since
	wants           map[string]int32
}

// sight is when a replica first saw a pod, and in which version.
type sight struct {
	version string
	at      time.Time
}

func newReplica(c *cluster) *replica {
	r := &replica{cluster: c, skew: c.between(-time.Second, time.Second)}
	r.boot()
	return r
}

// boot starts the replica: its cache begins with a list of all that there is.
func (r *replica) boot() {
	r.active, r.known, r.wants = map[string]map[string]int32{}, map[string]bool{}, map[string]int32{}
	r.seen = map[string]sight{}
	r.podsAt, r.sizesAt, r.newest = 0, 0, 0
	r.learn(r.now)
	for key := range r.seen {
		if r.pods[key] == nil {
			delete(r.seen, key)
		}
	}
}

// learn applies all changes up to a time.
func (r *replica) learn(until time.Time) {
	for ; r.podsAt < len(r.events) && !r.events[r.podsAt].at.After(until); r.podsAt++ {
		p := r.events[r.podsAt].pod
		r.newest = p.version
		if r.active[p.owner] == nil {
			r.active[p.owner] = map[string]int32{}
		}
		if p.gone {
			r.active[p.owner][p.subset]--
			delete(r.known, p.key)
			continue
		}
		r.active[p.owner][p.subset]++
		r.known[p.key] = true
		r.seen[p.key] = sight{strconv.FormatInt(p.version, 10), r.now}
	}
	for ; r.sizesAt < len(r.resizes) && !r.resizes[r.sizesAt].at.After(until); r.sizesAt++ {
		r.wants[r.resizes[r.sizesAt].owner] = r.resizes[r.sizesAt].size
	}
}

// drift changes how far the cache is behind.
func (r *replica) drift(p *process) {
	for {
		r.learn(r.now.Add(-r.lag))
		r.lag = p.between(0, r.mostLag/10)
		if p.sometimes(0.3) {
			r.lag = p.between(0, r.mostLag)
		}
		p.sleep(p.between(200*time.Millisecond, 3*time.Second))
	}
}

// admit answers a request: it waits for the cache, decides, and writes the book.
func (r *replica) admit(p *process, key, owner string) string {
	p.sleep(p.between(0, 5*time.Millisecond))
	until, before := p.now.Add(waits), maps.Clone(r.book.Entries)
	for {
		r.learn(p.now.Add(-r.lag))
		book, version := ledger.Copy(r.book), r.books
		in := spread.InputOf(r.facts(book, before, key, owner))
		behind := !book.Knows(strconv.FormatInt(r.newest, 10)) && r.variant != noSeen || in.Surplus && r.variant != noWait
		if behind && p.now.Before(until) {
			p.sleep(10 * time.Millisecond)
			continue
		}
		if r.variant == noTakeover {
			in.Oldest = nil
		}
		d := spread.Choose(in)
		if !d.Book || r.variant == noEntries {
			return d.Subset
		}
		p.sleep(p.between(time.Millisecond, 6*time.Millisecond)) // the write
		if r.books != version && r.variant != noCompare {
			r.conflicts++
			continue
		}
		if d.Replaces != "" {
			r.taken++
		}
		r.write(book, key, owner, d)
		return d.Subset
	}
}

// lingers is how long an entry stays after its pod was seen, for replicas that have not seen the pod.
const lingers = 2 * time.Second

// isBehind reports whether another replica knew newer pods when it made an entry.
func (r *replica) isBehind(book ledger.Book) bool {
	for _, e := range book.Entries {
		book.Seen = e.Version
		if !book.Knows(strconv.FormatInt(r.newest, 10)) {
			return true
		}
	}
	return false
}

func (r *replica) write(book ledger.Book, key, owner string, d spread.Decision) {
	now := r.now.Add(r.skew)
	e := ledger.Entry{UID: key, Subset: d.Subset, Owner: owner, Since: now, Expires: now.Add(ledger.Bound), Version: strconv.FormatInt(r.newest, 10)}
	if r.variant == shortEntry {
		e.Expires = now.Add(5 * time.Second)
	}
	settled := map[string]string{}
	for key := range book.Entries {
		if s, ok := r.seen[key]; ok && r.now.Sub(s.at) >= lingers || ok && (r.variant == noLinger || r.variant == noSeen) {
			settled[key] = s.version
		}
	}
	book, _ = ledger.Settle(book, settled, now)
	r.book = ledger.Place(book, e, d.Replaces)
	r.books++
}

// facts are what the replica knows.
func (r *replica) facts(book ledger.Book, before map[string]ledger.Entry, key, owner string) spread.Facts {
	f := spread.Facts{Spread: r.spread, Key: key, Owner: owner, Pods: r.active[owner], Wants: r.wants[owner]}
	for _, n := range r.active[owner] {
		f.OwnerPods += n
	}
	for key, e := range book.Entries {
		if e.Owner == owner && r.seen[key].version == "" { // a revision is a ReplicaSet
			f.Entries = append(f.Entries, spread.Entry{Key: e.UID, Subset: e.Subset, Owner: e.Owner, Since: e.Since})
		}
	}
	f.Behind = r.isBehind(book)
	f.Before = func(key string) bool { return before[key].UID != "" || r.variant == takeNew }
	return f
}
