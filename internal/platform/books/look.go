package books

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// Look returns what the books of some budgets hold together, joined or not. It writes nothing.
// It reads from the cache, so that it may be as old as that: for dry runs and for numbers.
func (b *Books) Look(ctx context.Context, namespace string, budgets []Owner) (ledger.Book, error) {
	names, err := namesOf(budgets)
	if err != nil {
		return ledger.Book{}, err
	}
	known := map[string]ledger.Book{}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if _, ok := known[name]; ok {
			continue
		}
		v, err := b.read(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			return ledger.Book{}, err
		}
		if v == nil {
			continue
		}
		known[name] = v.book
		if !v.book.IsRoot() {
			names = append(names, v.book.Joined)
		}
	}
	return union(known), nil
}

// union merges the roots, and the frozen books that no root has absorbed.
func union(known map[string]ledger.Book) ledger.Book {
	if len(known) == 1 {
		for _, book := range known {
			return book // readers change no book
		}
	}
	var all ledger.Book
	var absorbed []string
	for _, book := range known {
		if book.IsRoot() {
			absorbed = append(absorbed, book.Absorbed...)
			if all.Name == "" || book.Name < all.Name {
				all.Name = book.Name
			}
		}
	}
	for name, book := range known {
		if book.IsRoot() || !book.Moved && !slices.Contains(absorbed, name) {
			all = ledger.Merge(all, book)
		}
	}
	return all
}
