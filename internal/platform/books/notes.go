package books

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// noteDelay is how long a note waits for a write that others need anyway.
const noteDelay = 300 * time.Millisecond

// errNoChange is returned for notes that say what the book says already.
var errNoChange = errors.New("the book has the notes")

// note adds something to a book that no decision relies on.
type note func(ledger.Book) (ledger.Book, bool)

// Note enters something into a book that no decision relies on, such as a refused request. It
// does not wait: the note is written with the next decision of the book, or a moment later.
// Until then this replica alone knows it. A replica that dies in between forgets it. The book exists.
func (b *Books) Note(ctx context.Context, of Key, add func(ledger.Book) (ledger.Book, bool)) {
	key := of.object
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting, timed := b.notes[key]
	if len(waiting) < ledger.MostWaiting { // a book keeps no more of them
		b.notes[key] = append(waiting, add)
	}
	if !timed {
		b.writeNotesSoon(context.WithoutCancel(ctx), key)
	}
}

func (b *Books) writeNotesSoon(ctx context.Context, key client.ObjectKey) {
	time.AfterFunc(noteDelay, func() { b.writeNotes(ctx, key) })
}

// writeNotes writes the notes of a book that no decision has written. Notes that cannot be
// written are dropped: a client that waits asks again.
func (b *Books) writeNotes(ctx context.Context, key client.ObjectKey) {
	bounded, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	_, err := b.apply(bounded, key, func(v *version) (*version, bool, error) {
		if !v.noted {
			return nil, false, errNoChange
		}
		return v, true, nil
	})
	lost := err != nil && !errors.Is(err, errNoChange)
	if lost && !errors.Is(err, errGone) { // a book that was deleted is no fault
		log.FromContext(ctx).Error(err, "Refused requests are not in their book")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.notes[key]) == 0 || lost {
		delete(b.notes, key)
		return
	}
	b.writeNotesSoon(ctx, key)
}

// withNotes returns a version with the notes that wait, and their number. Notes that say what the
// book says already are dropped.
func (b *Books) withNotes(key client.ObjectKey, v *version) (*version, int) {
	if v == nil {
		return v, 0
	}
	b.mu.Lock()
	notes := b.notes[key]
	b.mu.Unlock()
	next := &version{meta: v.meta, book: v.book}
	var changes []note
	for _, add := range notes {
		if book, changed := add(next.book); changed {
			next.book, changes = book, append(changes, add)
		}
	}
	next.noted = len(changes) > 0
	b.replaceNotes(key, len(notes), changes)
	return next, len(changes)
}

// replaceNotes puts others in the place of the first n notes of a book. The lane of the book alone
// does so.
func (b *Books) replaceNotes(key client.ObjectKey, n int, by []note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if notes, timed := b.notes[key]; timed {
		b.notes[key] = slices.Concat(by, notes[min(n, len(notes)):])
	}
}
