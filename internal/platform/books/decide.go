package books

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// decideTimeout bounds a decision whose caller set no bound.
const decideTimeout = 10 * time.Second

// Decide decides about a pod that some budgets cover. It joins the books of the budgets, calls
// decide with the joined book, and writes the result if decide returns true. decide must not
// change the book that it is given. It is called again after a conflict with another replica,
// never twice at a time, and not after Decide has returned.
//
// A cached book may be old. A write proves that it is not. Without a write, the book is read
// past the cache, and a newer one is decided with again.
func (b *Books) Decide(ctx context.Context, namespace string, budgets []Owner, decide func(ledger.Book) (ledger.Book, bool)) (ledger.Book, error) {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	for ctx.Err() == nil {
		root, err := b.join(ctx, namespace, budgets)
		if err != nil {
			return ledger.Book{}, err
		}
		book, err := b.apply(ctx, root, func(v *version) (*version, bool, error) {
			return decideRoot(v, budgets, decide)
		})
		if !errors.Is(err, errChanged) {
			return book, err
		}
	}
	return ledger.Book{}, fmt.Errorf("decide in namespace %s: %w", namespace, ctx.Err())
}

// decideRoot decides about a book that still holds its own entries.
func decideRoot(v *version, budgets []Owner, decide func(ledger.Book) (ledger.Book, bool)) (*version, bool, error) {
	if !v.book.IsRoot() {
		return nil, false, errChanged
	}
	known := withoutPods(v.meta.OwnerReferences)
	refs := addOwners(known, references(budgets))
	if len(refs) > MostOwners && len(refs) > len(known) {
		return nil, false, fmt.Errorf("%w: %d would share DisruptionBook %s, at most %d may", ErrManyBudgets, len(refs), v.meta.Name, MostOwners)
	}
	book, changed := decide(v.book)
	if !changed {
		return v, false, nil
	}
	next := &version{meta: v.meta, book: book}
	next.meta.OwnerReferences = withPods(refs, book)
	return next, true, nil
}
