package simulation

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/test/disruptions"
)

func (r *replica) put(b ledger.Book, version int64) bool {
	if r.variant == NoCompare {
		version = r.store.books[b.Name].version
	}
	return r.swap(r.now, b, version)
}

// open returns the book of all budgets as it is in etcd, or in the cache.
func (r *replica) open(budgets []disruptions.Budget, live bool) stored {
	name := "budgets"
	if r.variant == OwnBooks {
		name = budgets[0].UID
	}
	b := r.booksOf(live)[name]
	b.Book = ledger.Copy(b.Book)
	b.Name = name
	return b
}

// booksOf returns the books in etcd, or in the cache.
func (r *replica) booksOf(live bool) map[string]stored {
	if live {
		return r.store.books
	}
	return r.books
}

// enter writes the decision into the book, as far as the book changes.
func (r *replica) enter(b ledger.Book, in budget.Input, d budget.Decision) (ledger.Book, bool) {
	changed := false
	if d.Take && r.variant != NoEntry {
		e := in.Entry()
		if r.variant == ShortEntry {
			e.Expires = in.Now.Add(5 * time.Second)
		}
		if r.variant == EarlyLeave && in.Vector == budget.Leave {
			e.Use = ledger.Changed
		}
		b, changed = ledger.Take(b, e)
	}
	if d.Verdict == budget.Refused { // a request for a predecessor is told so once
		next, asked := ledger.Ask(b, in.Waiting())
		b, changed = next, changed || asked
	}
	return b, changed
}

// observe removes the entries that have ended, as the leader does. It looks at the entries of
// the cached book, and applies what it saw to the book as it is then.
func (r *replica) observe(p *process) {
	r.refresh()
	for _, name := range slices.Sorted(maps.Keys(r.books)) {
		seen, ok := r.seenOf(r.books[name].Book)
		if !ok {
			continue
		}
		starts := r.starts
		p.sleep(p.between(time.Millisecond, 8*time.Millisecond))
		if !r.up || r.starts != starts {
			return
		}
		now := r.store.books[name]
		next, fresh := ledger.Refresh(r.byTheClock(ledger.Copy(now.Book)), seen, r.clock())
		if next, gone := ledger.Observe(next, seen, r.clock()); fresh || len(gone) > 0 {
			p.sleep(p.between(time.Millisecond, 8*time.Millisecond))
			if !r.up || r.starts != starts {
				return
			}
			r.put(next, now.version)
		}
	}
}

// seenOf is what the cache knows of the pods of a book's entries; false for a book without.
func (r *replica) seenOf(b ledger.Book) (ledger.Seen, bool) {
	seen := ledger.Seen{Version: r.version(), Pods: map[string]ledger.PodSeen{}}
	for uid, e := range b.Entries {
		p := r.pods[uid]
		if p == nil {
			seen.Pods[uid] = ledger.PodSeen{Gone: true}
			continue
		}
		resize := e.Vector != string(budget.Update) && e.Vector != string(budget.Leave) // as budget.Seen: a deletion that failed leaves a resize behind
		seen.Pods[uid] = ledger.PodSeen{
			Version: strconv.FormatInt(p.version, 10), Going: p.deleting, Generation: p.generation, Restarts: p.restarts, Grace: grace,
			Pending: p.observed < p.generation || resize && p.deferred, Infeasible: resize && p.infeasible,
		}
	}
	return seen, len(b.Entries) > 0
}

// byTheClock lets the clock end changes, in a broken variant.
func (r *replica) byTheClock(b ledger.Book) ledger.Book {
	for uid, e := range b.Entries {
		if r.variant == ClockEnds && r.clock().Sub(e.Since) >= ledger.Bound {
			delete(b.Entries, uid)
		}
	}
	return b
}
