package ledger

import (
	"maps"
	"slices"
	"time"
)

// Freeze lets a book point to the one that takes over its entries. From then on the book does
// not change until Close. It returns false for a book that points already, and for a target
// that has no smaller name.
func Freeze(b Book, into string) (Book, bool) {
	if !b.IsRoot() || into >= b.Name || into == "" {
		return b, false
	}
	b.Joined, b.Moved = into, false
	return b, true
}

// Absorb takes over the entries of a frozen book, and what that book has absorbed itself. It
// returns false when the book has done so before, when it points to another book itself, and
// when the other book is not frozen. Entries that have expired are not taken over.
func Absorb(into, from Book, now time.Time) (Book, bool) {
	if !into.IsRoot() || from.IsRoot() || from.Moved || slices.Contains(into.Absorbed, from.Name) {
		return into, false
	}
	into = Merge(into, from)
	maps.DeleteFunc(into.Entries, func(_ string, e Entry) bool { return !e.Holds(now) })
	names := slices.Concat(into.Absorbed, from.Absorbed, []string{from.Name})
	into.Absorbed = names[max(0, len(names)-MostAbsorbed):]
	return into, true
}

// Close ends the join of a frozen book, after its entries were taken over. Its pointer stays.
func Close(b Book) (Book, bool) {
	if b.IsRoot() || b.Moved {
		return b, false
	}
	return Book{Name: b.Name, Joined: b.Joined, Moved: true}, true
}

// Point lets a closed book point to a book further down the chain, past the others.
func Point(b Book, to string) (Book, bool) {
	if b.IsRoot() || !b.Moved || to >= b.Joined || to == "" {
		return b, false
	}
	b.Joined = to
	return b, true
}

// Merge returns a book with what it and others hold, for readers. It is the first book in all
// else.
func Merge(b Book, others ...Book) Book {
	entries := make(map[string]Entry, len(b.Entries))
	maps.Copy(entries, b.Entries)
	for _, other := range others {
		for uid, e := range other.Entries {
			if known, ok := entries[uid]; ok {
				e = joinEntry(known, e)
			}
			entries[uid] = e
		}
		b.Waiting = joinWaiting(b.Waiting, other.Waiting)
		b.Decisions = joinHistory(b.Decisions, other.Decisions)
		b.Seen = newest(b.Seen, other.Seen)
	}
	b.Entries = entries
	return b
}

// joinEntry merges two entries of one pod.
func joinEntry(a, b Entry) Entry {
	if b.Since.Before(a.Since) {
		a, b = b, a
	}
	return again(a, b)
}
