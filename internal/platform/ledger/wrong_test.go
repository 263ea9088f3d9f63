package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// wrong are variants of the functions, each with a mistake that the model has to find.
var wrong = map[string]struct {
	in      string // the shape that shows it
	mistake func(*rules)
	want    string // a part of the violation
}{
	"a book for each budget": {"two budgets share a pod", func(r *rules) {
		r.book = func(budgets []int) int { return budgets[0] }
	}, "in use"},
	"writes do not compare": {"time passes", func(r *rules) { r.cas = false }, "in use"},
	"a replica decides with an old cache": {"time passes", func(r *rules) {
		r.knows = func(ledger.Book, string) bool { return true }
	}, "in use"},
	"removals are not noted": {"time passes", func(r *rules) {
		r.observe = func(b ledger.Book, seen ledger.Seen, now time.Time) (ledger.Book, []ledger.Entry) {
			next, ended := ledger.Observe(b, seen, now)
			next.Seen = b.Seen
			return next, ended
		}
	}, "in use"},
	"a pod that is not in the cache is gone": {"pods come back", func(r *rules) {
		r.observe = func(b ledger.Book, seen ledger.Seen, now time.Time) (ledger.Book, []ledger.Entry) {
			seen.Version = "999"
			next, ended := ledger.Observe(b, seen, now)
			next.Seen = b.Seen
			return next, ended
		}
	}, "lost"},
	"a change that is written is over": {"a pod is changed in place", func(r *rules) {
		r.observe = func(b ledger.Book, seen ledger.Seen, now time.Time) (ledger.Book, []ledger.Entry) {
			for uid, pod := range seen.Pods {
				pod.Restarts += pod.Generation - 1
				seen.Pods[uid] = pod
			}
			return ledger.Observe(b, seen, now)
		}
	}, "lost"},
	"the clock ends a change": {"a change takes long", func(r *rules) {
		r.refresh = func(b ledger.Book, _ ledger.Seen, _ time.Time) (ledger.Book, bool) { return b, false }
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			if e.Use == ledger.Changed {
				e.Use = ledger.Restarting
			}
			return ledger.Take(b, e)
		}
	}, "lost"},
	"a second look at a change does not renew the entry": {"a pod is changed in place", func(r *rules) {
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			if known, ok := b.Entries[e.UID]; ok {
				e.Version, e.Generation, e.Restarts = known.Version, known.Generation, known.Restarts
			}
			return ledger.Take(b, e)
		}
	}, "lost"},
	"an entry expires before the write": {"time passes", func(r *rules) {
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			e.Expires = e.Since.Add(ledger.Bound / 2)
			return ledger.Take(b, e)
		}
	}, "lost"},
	"a second request does not make the entry last": {"time passes", func(r *rules) {
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			if _, ok := b.Entries[e.UID]; ok {
				return b, true
			}
			return ledger.Take(b, e)
		}
	}, "lost"},
}

// TestModelFindsMistakes proves that the model can fail: in one of the shapes it finds each mistake.
func TestModelFindsMistakes(t *testing.T) {
	for name, w := range wrong {
		t.Run(name, func(t *testing.T) {
			r := rightRules()
			w.mistake(&r)
			m := newModel(shapes[w.in], r)
			err := m.explore(200_000)
			if err == nil || !strings.Contains(err.Error(), w.want) {
				t.Errorf("after %d situations: %v, want a violation with %q", len(m.queue), err, w.want)
			}
			t.Logf("after %d situations: %v", len(m.queue), err)
		})
	}
}
