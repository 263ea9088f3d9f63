package fair

import "slices"

// Turns is the order of items that wait, in which keys take turns: however many items of one key wait, an
// item of another key waits for one of them. The zero value is ready. It is not safe for concurrent use.
type Turns[K comparable, T any] struct {
	// Each is how much weight one key may have inside at a time; 0 for no bound.
	Each int

	lines map[K]*line[K, T] // of the keys with items
	next  []*line[K, T]     // those of which an item may begin, the next one first
	ready int               // items that wait in them
}

// line is the items of one key. Those of low priority come last.
type line[K comparable, T any] struct {
	key           K
	high, low     []*Item[K, T] // that wait
	inside, ready int           // the weight of items that have begun; items that Turns counts as ready
}

// Item waits from Push to Begin, or to Drop, and is inside from Begin to End.
type Item[K comparable, T any] struct {
	Value T
	Low   bool // its priority

	weight int
	line   *line[K, T]
	begun  bool
}

// Push adds an item that waits. Its weight must be positive, and at most Each.
func (t *Turns[K, T]) Push(key K, value T, weight int, low bool) *Item[K, T] {
	l := t.lines[key]
	if l == nil {
		if t.lines == nil {
			t.lines = map[K]*line[K, T]{}
		}
		l = &line[K, T]{key: key}
		t.lines[key] = l
	}
	i := &Item[K, T]{Value: value, Low: low, weight: weight, line: l}
	*l.of(low) = append(*l.of(low), i)
	t.settle(l)
	return i
}

// Raise gives an item that waits with low priority the other one.
func (t *Turns[K, T]) Raise(i *Item[K, T]) {
	if i.Low {
		i.leave()
		i.Low, i.line.high = false, append(i.line.high, i)
		t.settle(i.line)
	}
}

// Drop takes out an item that waits.
func (t *Turns[K, T]) Drop(i *Item[K, T]) {
	i.leave()
	t.settle(i.line)
}

// Next is the item whose turn it is; nil while none may begin.
func (t *Turns[K, T]) Next() *Item[K, T] {
	if len(t.next) == 0 {
		return nil
	}
	return t.next[0].first()
}

// Begin lets the next item in. The other keys come before the next item of its key.
func (t *Turns[K, T]) Begin(i *Item[K, T]) {
	i.leave()
	i.begun = true
	i.line.inside += i.weight
	t.next = append(t.next[1:], i.line)
	t.settle(i.line)
}

// End ends an item that has begun.
func (t *Turns[K, T]) End(i *Item[K, T]) {
	i.line.inside -= i.weight
	t.settle(i.line)
}

// Ready is how many of the items that wait are of keys of which one may begin.
func (t *Turns[K, T]) Ready() int { return t.ready }

// settle brings the order in line with a key that has changed.
func (t *Turns[K, T]) settle(l *line[K, T]) {
	before, waiting := l.ready, len(l.high)+len(l.low)
	l.ready = 0
	if waiting > 0 && (t.Each == 0 || l.inside+l.first().weight <= t.Each) {
		l.ready = waiting
	}
	t.ready += l.ready - before
	switch {
	case before == 0 && l.ready > 0:
		t.next = append(t.next, l)
	case before > 0 && l.ready == 0:
		i := slices.Index(t.next, l)
		t.next = slices.Delete(t.next, i, i+1)
	}
	if waiting == 0 && l.inside == 0 {
		delete(t.lines, l.key)
	}
}

func (l *line[K, T]) of(low bool) *[]*Item[K, T] {
	if low {
		return &l.low
	}
	return &l.high
}

// first is the item that begins first. One must wait.
func (l *line[K, T]) first() *Item[K, T] { return (*l.of(len(l.high) == 0))[0] }

// leave takes an item that waits from its line. Mostly it is the first one.
func (i *Item[K, T]) leave() {
	from := i.line.of(i.Low)
	if at := slices.Index(*from, i); at == 0 {
		(*from)[0], *from = nil, (*from)[1:]
	} else {
		*from = slices.Delete(*from, at, at+1)
	}
}
