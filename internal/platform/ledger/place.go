package ledger

import (
	"maps"
	"time"
)

// Place enters a pod that is being created. It takes the place of the entry that replaces names;
// "" for none. A full book drops its oldest entry: no creation fails because of the others, and
// the oldest entry has most likely no pod to come.
func Place(b Book, e Entry, replaces string) Book {
	e.Use, e.Since, e.Expires = Placed, stored(e.Since), stored(e.Expires)
	b.Entries = maps.Clone(b.Entries)
	if b.Entries == nil {
		b.Entries = map[string]Entry{}
	}
	delete(b.Entries, replaces)
	delete(b.Entries, e.UID)
	for len(b.Entries) > 0 && Full(b) {
		delete(b.Entries, oldest(b.Entries))
	}
	b.Entries[e.UID] = e
	return b
}

// oldest is the key of the entry that was made first.
func oldest(entries map[string]Entry) string {
	var first Entry
	for _, e := range entries {
		if first.UID == "" || e.Since.Before(first.Since) || e.Since.Equal(first.Since) && e.UID < first.UID {
			first = e
		}
	}
	return first.UID
}

// Settle removes the entries of creations that became pods, and those that expired. seen has the
// versions of the pods by the keys of their entries. The book then notes which pods a replica
// must know to decide: those that took the places of entries. The result reports whether an entry
// was removed.
func Settle(b Book, seen map[string]string, now time.Time) (Book, bool) {
	before := len(b.Entries)
	known := b.Seen
	entries := make(map[string]Entry, before)
	for key, e := range b.Entries {
		version, ok := seen[key]
		switch {
		case ok:
			known = newest(version, known)
		case now.Before(e.Expires):
			entries[key] = e
		}
	}
	if len(entries) == before {
		return b, false
	}
	b.Entries, b.Seen = entries, known
	return b, true
}
