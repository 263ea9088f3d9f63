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
	b.Waiting = mergeWaiting(b.Waiting, other.Waiting)
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

// mergeWaiting merges two lists of requests. The one that came last tells which pod is meant.
func mergeWaiting(a, b []Waiting) []Waiting {
	all := slices.Clone(a)
	for _, w := range b {
		at := slices.IndexFunc(all, w.sameRequest)
		if at < 0 {
			all = append(all, w)
			continue
		}
		known := all[at]
		if known.Last.After(w.Last) {
			known, w = w, known
		}
		if w.UID == known.UID && known.Since.Before(w.Since) {
			w.Since = known.Since
		}
		all[at] = w
	}
	return boundWaiting(all)
}

// mergeHistory merges two histories.
func mergeHistory(a, b []Decision) []Decision {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b Decision) int { return b.Time.Compare(a.Time) })
	return boundHistory(slices.CompactFunc(all, repeats))
}
