package spread

import (
	"math"
	"slices"
	"sort"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// numbering gives each ordinal that a StatefulSet wants its place: 0 for the lowest.
type numbering struct {
	start, count int64
	// spans are the reserved ordinals from the start on, and skipped is how many there are up to
	// the end of each span.
	spans   []workload.Span
	skipped []int64
}

func number(d workload.Desired) numbering {
	n := numbering{start: int64(d.Start), count: int64(d.Replicas)}
	sum := int64(0)
	for _, span := range d.Reserved {
		if int64(span.Last) < n.start {
			continue
		}
		span.First = max(span.First, d.Start)
		sum += int64(span.Last) - int64(span.First) + 1
		n.spans, n.skipped = append(n.spans, span), append(n.skipped, sum)
	}
	return n
}

// place returns the place of an ordinal; false for an ordinal that is not wanted.
func (n numbering) place(ordinal int32) (int64, bool) {
	i := sort.Search(len(n.spans), func(i int) bool { return n.spans[i].Last >= ordinal })
	if i < len(n.spans) && n.spans[i].First <= ordinal {
		return 0, false
	}
	at := int64(ordinal) - n.start
	if i > 0 {
		at -= n.skipped[i-1]
	}
	return at, at >= 0 && at < n.count
}

// ordinals are the places that a subset has by the maxima alone, and what the new ones get.
type ordinals struct {
	from, to int64 // without to
	// new is how many of the places are new, done how many of them have a subset. The lowest
	// come first.
	new, done int64
	shares    []share
}

// share is how many places in a row get a subset.
type share struct {
	subset int
	n      int64
}

// give gives a subset to the lowest new places, and returns to how many.
func (o *ordinals) give(subset int, most int64) int64 {
	n := min(most, o.new-o.done)
	if n > 0 {
		o.done += n
		o.shares = append(o.shares, share{subset, n})
	}
	return max(n, 0)
}

// fill gives the new places to the subsets.
func (a *Assignment) fill() {
	a.divide()
	for i := range a.areas {
		a.left[i] -= a.ranges[i].give(i, a.left[i])
		for j := range a.ranges {
			a.left[i] -= a.ranges[j].give(i, a.left[i])
		}
	}
}

// divide divides the places by the maxima alone. The last range has the places of no subset.
func (a *Assignment) divide() {
	for ordinal := range a.kept {
		at, _ := a.numbers.place(ordinal)
		a.used = append(a.used, at)
	}
	for _, ordinal := range a.beyond {
		at, _ := a.numbers.place(ordinal)
		a.used = append(a.used, at)
	}
	slices.Sort(a.used)
	from := int64(0)
	for _, area := range a.areas {
		size := int64(math.MaxInt32)
		if area.Max != nil {
			size = int64(*area.Max)
		}
		to := min(from+size, a.numbers.count)
		a.ranges = append(a.ranges, a.rangeOf(from, to))
		from = to
	}
	a.ranges = append(a.ranges, a.rangeOf(from, a.numbers.count))
}

func (a *Assignment) rangeOf(from, to int64) ordinals {
	return ordinals{from: from, to: to, new: a.unused(from, to)}
}

// unused is how many places from one up to another are new.
func (a *Assignment) unused(from, to int64) int64 {
	first, _ := slices.BinarySearch(a.used, from)
	last, _ := slices.BinarySearch(a.used, to)
	return to - from - int64(last-first)
}

// filled returns the subset of a new place; -1 for none.
func (a *Assignment) filled(at int64) int {
	for i := range a.ranges {
		r := &a.ranges[i]
		if at < r.from || at >= r.to {
			continue
		}
		rank := a.unused(r.from, at)
		for _, s := range r.shares {
			if rank < s.n {
				return s.subset
			}
			rank -= s.n
		}
	}
	return -1
}
