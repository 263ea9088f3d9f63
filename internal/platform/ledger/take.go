package ledger

import (
	"maps"
	"slices"
	"time"
)

// Take enters a pod that may go. It returns false for a full book, which stays as it is.
//
// A pod that has an entry keeps it, with the time of the first decision: one deletion makes
// several calls. The entry then lasts as long as the later request may take to be written. The
// request waits no longer.
func Take(b Book, e Entry) (Book, bool) {
	e.By, e.Vector = short(e.By), short(e.Vector)
	e.Since, e.Expires = stored(e.Since), stored(e.Expires)
	if known, ok := b.Entries[e.UID]; ok {
		e = combined(known, e)
	} else if Full(b) {
		return b, false
	}
	b.Entries = maps.Clone(b.Entries)
	if b.Entries == nil {
		b.Entries = map[string]Entry{}
	}
	b.Entries[e.UID] = e
	b.Waiting = slices.DeleteFunc(slices.Clone(b.Waiting), func(w Waiting) bool { return w.Pod == e.Pod && w.By == e.By })
	return b, true
}

// combined is the entry of a pod for which a second request was decided. It never expires when the
// first one does, so that Remove tells the two apart. What was written after the first decision is not
// over when the second request fails: the entry keeps that generation. A second change restarts
// containers once more.
func combined(known, later Entry) Entry {
	if !known.Use.InPlace() || later.Use.InPlace() && later.Generation > known.Generation {
		later.Vector = known.Vector
	}
	switch {
	case !newer(later.Version, known.Version):
		later.Version, later.Generation, later.Restarts = known.Version, known.Generation, known.Restarts
	case later.Generation > known.Generation && later.Use.InPlace():
		later.Generation, later.Restarts = known.Generation, max(later.Restarts, known.Restarts+1)
	case later.Generation > known.Generation:
		later.Generation, later.Restarts = known.Generation, known.Restarts
	}
	if later.Generation == 0 && (known.Use.InPlace() || later.Use.InPlace()) {
		later.Generation = -1 // without generations, the change may be written when the other request fails
	}
	if known.Use == Leaving || later.Use == Leaving || known.Use.InPlace() != later.Use.InPlace() {
		later.Use = Leaving
	}
	later.By, later.Since = known.By, known.Since
	later.Expires = latest(known.Expires.Add(time.Microsecond), later.Expires)
	return later
}

// Remove takes back the entry of a request that failed. The entry stays, and the result is
// false, when another request relies on it: then its times are not those of e.
func Remove(b Book, e Entry) (Book, bool) {
	known, ok := b.Entries[e.UID]
	if !ok || known.Use != e.Use || !known.Since.Equal(stored(e.Since)) || !known.Expires.Equal(stored(e.Expires)) {
		return b, false
	}
	b.Entries = maps.Clone(b.Entries)
	delete(b.Entries, e.UID)
	return b, true
}

// stored is a time as an API object keeps it.
func stored(t time.Time) time.Time {
	return t.Truncate(time.Microsecond)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
