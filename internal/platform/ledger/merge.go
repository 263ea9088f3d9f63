package ledger

import (
	"maps"
	"slices"
)

// Merge returns a book with what another one holds, too. It is done again after a failure: what it took
// over before stays as it is, or lasts longer.
func Merge(b, other Book) Book {
	b.Entries = maps.Clone(b.Entries)
	if b.Entries == nil {
		b.Entries = map[string]Entry{}
	}
	for uid, e := range other.Entries {
		if known, ok := b.Entries[uid]; ok && known != e {
			e = mergeEntry(known, e)
		}
		b.Entries[uid] = e
	}
	for _, w := range other.Waiting {
		b, _ = Ask(b, w)
	}
	b.Decisions = mergeHistory(b.Decisions, other.Decisions)
	b.Seen = newest(b.Seen, other.Seen)
	return b
}

// mergeEntry merges two entries of one pod.
func mergeEntry(a, b Entry) Entry {
	if b.Since.Before(a.Since) {
		a, b = b, a
	}
	return again(a, b)
}

// mergeHistory merges two histories.
func mergeHistory(a, b []Decision) []Decision {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b Decision) int { return b.Time.Compare(a.Time) })
	return boundHistory(slices.CompactFunc(all, Decision.same))
}
