package board

import (
	"cmp"
	"fmt"
	"slices"
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
	shares := shareByNamespace(kept, sizes, mostParts)
	if left := sum(sizes) - sum(shares); left > 0 {
		b.Notes = append(b.Notes, Note{s, fmt.Sprintf("%d %s are left out: the page shows %d of all %s together", left, part, mostParts, what)})
	}
	made := make([]T, len(kept))
	for i, e := range kept {
		made[i] = e.cut(shares[i])
	}
	return made
}

// shareByNamespace divides a total among entries: first among namespaces, then among the entries of each. A tenant
// with very many parts takes none that a small namespace asks for.
func shareByNamespace[T any](entries []sized[T], sizes []int, total int) []int {
	of, names := map[string][]int{}, []string{}
	for i, e := range entries {
		if of[e.namespace] == nil {
			names = append(names, e.namespace)
		}
		of[e.namespace] = append(of[e.namespace], i)
	}
	pick := func(at []int) (picked []int) {
		for _, i := range at {
			picked = append(picked, sizes[i])
		}
		return picked
	}
	asked := make([]int, len(names))
	for n, name := range names {
		asked[n] = sum(pick(of[name]))
	}
	shares := make([]int, len(entries))
	for n, room := range share(asked, total) {
		at := of[names[n]]
		for j, most := range share(pick(at), room) {
			shares[at[j]] = most
		}
	}
	return shares
}

// share divides a total fairly: who asks for less than an equal share gets it all, and the others divide the rest.
func share(asked []int, total int) []int {
	order, shares := make([]int, len(asked)), make([]int, len(asked))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(asked[a], asked[b]) })
	for n, i := range order {
		shares[i] = min(asked[i], total/(len(order)-n))
		total -= shares[i]
	}
	return shares
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
