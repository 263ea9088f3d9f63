package board

import (
	"fmt"
	"slices"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// sized is an entry whose parts count against a bound of all entries of a section together.
type sized[T any] struct {
	key
	// parts returns how many parts the entry would have.
	parts func() int
	// cut makes the entry with at most a number of its parts.
	cut func(most int) T
}

// keepParts keeps entries like keep, with at most a number of parts together. It notes how many parts are left out.
func keepParts[T any](b *Board, s Section, what, part string, all []sized[T], most, mostParts int) []T {
	entries := make([]entry[sized[T]], len(all))
	for i, e := range all {
		entries[i] = entry[sized[T]]{e.key, func() sized[T] { return e }}
	}
	kept := keep(b, s, what, entries, most)
	sizes := make([]int, len(kept))
	for i, e := range kept {
		sizes[i] = e.parts()
	}
	shares := share(sizes, mostParts, func(entry int) string { return kept[entry].namespace })
	if left := sum(sizes) - sum(shares); left > 0 {
		b.Notes = append(b.Notes, Note{s, fmt.Sprintf("%d %s are left out: the page shows %d of all %s together", left, part, mostParts, what)})
	}
	made := make([]T, len(kept))
	for i, e := range kept {
		made[i] = e.cut(shares[i])
	}
	return made
}

// share divides a total among entries: namespaces take turns, and the entries of each. A tenant with very many
// parts takes none that a small namespace asks for.
func share(sizes []int, total int, namespace func(entry int) string) []int {
	if sum(sizes) <= total {
		return sizes
	}
	var parts []int // the entry of each
	for i, n := range sizes {
		parts = append(parts, slices.Repeat([]int{i}, n)...)
	}
	parts = fair.InTurns(parts, func(i int) int { return i })
	parts = fair.InTurns(parts, namespace)
	shares := make([]int, len(sizes))
	for _, i := range parts[:total] {
		shares[i]++
	}
	return shares
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
