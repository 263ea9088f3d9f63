package fair_test

import (
	"math/rand/v2"
	"testing"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

type item = fair.Item[int, int]

// model is the turns of a few keys, as simple as they can be written.
type model struct {
	each    int
	waiting []*item
	inside  map[int]int
}

// key is the key of an item of a test, and weight is how much it weighs.
func key(i *item) int    { return i.Value % 10 }
func weight(i *item) int { return i.Value / 10 % 10 }

// first is the item of a key that begins first; nil where none may.
func (m *model) first(of int) *item {
	var found *item
	for _, i := range m.waiting {
		if key(i) == of && (found == nil || found.Low && !i.Low) {
			found = i
		}
	}
	if found == nil || m.inside[of]+weight(found) > m.each {
		return nil
	}
	return found
}

// Random calls: an item begins only within the bound of its key, the one that its key has first, and no key is served
// twice while another one waits that may be served.
func TestTurnsAreInOrder(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		m := &model{each: 3, inside: map[int]int{}}
		turns := fair.Turns[int, int]{Each: m.each}
		var begun []*item
		passed := map[int]int{} // how many began since a key could be served
		drop := func(i int) *item {
			own := m.waiting[i]
			m.waiting = append(m.waiting[:i:i], m.waiting[i+1:]...)
			return own
		}
		for step := range 300 {
			switch pick := random.IntN(6); {
			case pick < 2:
				k, w := random.IntN(4), 1+random.IntN(3)
				m.waiting = append(m.waiting, turns.Push(k, step*100+w*10+k, w, random.IntN(2) == 0))
			case pick == 2 && len(m.waiting) > 0:
				i := random.IntN(len(m.waiting))
				if m.waiting[i].Low { // a raised item is the last one of high priority
					own := drop(i)
					turns.Raise(own)
					m.waiting = append(m.waiting, own)
				}
			case pick == 3 && len(m.waiting) > 0:
				turns.Drop(drop(random.IntN(len(m.waiting))))
			case pick == 4 && len(begun) > 0:
				i := random.IntN(len(begun))
				turns.End(begun[i])
				m.inside[key(begun[i])] -= weight(begun[i])
				begun = append(begun[:i], begun[i+1:]...)
			default:
				next, ready := turns.Next(), 0
				for k := range 4 {
					if m.first(k) != nil {
						ready++
					}
				}
				if (next == nil) != (ready == 0) {
					t.Fatalf("seed %d: next item %v, of %d keys one may begin", seed, next, ready)
				}
				if next == nil {
					continue
				}
				if want := m.first(key(next)); next != want {
					t.Fatalf("seed %d: item %d begins, want %v", seed, next.Value, want)
				}
				turns.Begin(next)
				for i, own := range m.waiting {
					if own == next {
						drop(i)
						break
					}
				}
				m.inside[key(next)] += weight(next)
				begun = append(begun, next)
				for k := range 4 {
					if passed[k]++; k == key(next) {
						passed[k] = 0
					}
				}
			}
			for k := range 4 {
				if m.first(k) == nil {
					passed[k] = 0
				}
				if passed[k] > 3 {
					t.Fatalf("seed %d: %d items began while key %d waited", seed, passed[k], k)
				}
			}
			want := 0
			for _, i := range m.waiting {
				if m.first(key(i)) != nil {
					want++
				}
			}
			if turns.Ready() != want {
				t.Fatalf("seed %d: %d are ready, want %d", seed, turns.Ready(), want)
			}
		}
	}
}
