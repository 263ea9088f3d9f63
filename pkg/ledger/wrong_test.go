package ledger_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/ledger"
)

// wrong are variants of the functions, each with a mistake that the model has to find.
var wrong = map[string]struct {
	mistake func(*rules)
	want    string // a part of the violation
}{
	"a book is not frozen before it is absorbed": {func(r *rules) {
		r.next = func(known ledger.Books, names []string) ledger.Step {
			step := ledger.Next(known, names)
			if step.Do == ledger.DoFreeze && !slices.Contains(known[step.Other].Absorbed, step.Name) {
				return ledger.Step{Do: ledger.DoAbsorb, Name: step.Other, Other: step.Name}
			}
			return step
		}
		r.apply = func(s ledger.Step, b, other ledger.Book, now time.Time) (ledger.Book, bool) {
			switch s.Do {
			case ledger.DoAbsorb:
				other.Joined, other.Moved = b.Name, false
			case ledger.DoFreeze:
				return ledger.Book{Name: b.Name, Joined: s.Other, Moved: true}, true
			default:
			}
			return s.Apply(b, other, now)
		}
	}, "lost"},
	"a book is closed before it is absorbed": {func(r *rules) {
		r.next = func(known ledger.Books, names []string) ledger.Step {
			step := ledger.Next(known, names)
			if step.Do == ledger.DoAbsorb {
				return ledger.Step{Do: ledger.DoClose, Name: step.Other}
			}
			return step
		}
	}, "lost"},
	"a frozen book takes pods": {func(r *rules) {
		r.next = func(known ledger.Books, names []string) ledger.Step {
			step := ledger.Next(known, names)
			if step.Do == ledger.DoAbsorb && slices.Contains(names, step.Other) {
				return ledger.Step{Do: ledger.Done, Name: step.Other}
			}
			return step
		}
	}, "in use"},
	"a book that is absorbed is not closed": {func(r *rules) {
		r.next = func(known ledger.Books, names []string) ledger.Step {
			step := ledger.Next(known, names)
			if step.Do == ledger.DoClose {
				return ledger.Step{Do: ledger.DoAbsorb, Name: known[step.Name].Joined, Other: step.Name}
			}
			return step
		}
		r.rejoin = r.next
	}, "does not end"},
	"books are not joined": {func(r *rules) {
		r.next = func(known ledger.Books, names []string) ledger.Step { return ledger.Next(known, names[:1]) }
	}, "in use"},
	"writes do not compare": {func(r *rules) { r.cas = false }, "lost"},
	"a replica decides with an old cache": {func(r *rules) {
		r.knows = func(ledger.Book, string) bool { return true }
	}, "in use"},
	"removals are not noted": {func(r *rules) {
		r.observe = func(b ledger.Book, seen ledger.Seen, now time.Time) (ledger.Book, []ledger.Entry) {
			next, ended := ledger.Observe(b, seen, now)
			next.Seen = b.Seen
			return next, ended
		}
	}, "in use"},
	"a pod that is not in the cache is gone": {func(r *rules) {
		r.observe = func(b ledger.Book, seen ledger.Seen, now time.Time) (ledger.Book, []ledger.Entry) {
			seen.Version = "999"
			next, ended := ledger.Observe(b, seen, now)
			next.Seen = b.Seen
			return next, ended
		}
	}, "lost"},
	"a pod that is ready as before is ready again": {func(r *rules) {
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			e.ReadySince, e.Generation = time.Time{}, 0
			return ledger.Take(b, e)
		}
	}, "lost"},
	"an entry expires before the write": {func(r *rules) {
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			e.Expires = e.Since.Add(ledger.Bound / 2)
			return ledger.Take(b, e)
		}
	}, "lost"},
	"a second request does not make the entry last": {func(r *rules) {
		r.take = func(b ledger.Book, e ledger.Entry) (ledger.Book, bool) {
			if _, ok := b.Entries[e.UID]; ok {
				return b, true
			}
			return ledger.Take(b, e)
		}
	}, "lost"},
}

// TestModelFindsMistakes proves that the model can fail: in some shape it finds each mistake.
func TestModelFindsMistakes(t *testing.T) {
	for name, w := range wrong {
		t.Run(name, func(t *testing.T) {
			var found []string
			for shapeName, s := range shapes {
				r := rightRules()
				w.mistake(&r)
				m := newModel(s, r)
				if err := m.explore(50_000); err != nil && !strings.HasPrefix(err.Error(), "more than") {
					if strings.Contains(err.Error(), w.want) {
						t.Logf("%s, after %d situations: %v", shapeName, len(m.queue), err)
						return
					}
					found = append(found, err.Error())
				}
			}
			t.Errorf("no violation with %q: %v", w.want, found)
		})
	}
}
