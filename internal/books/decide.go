package books

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/ledger"
)

// decideTimeout bounds a decision whose caller set no bound.
const decideTimeout = 10 * time.Second

// mostSteps bounds the steps towards one book. Other replicas may undo the plan of a step, but
// do a step themselves each time.
const mostSteps = 64 * MostBudgets

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
	refs, err := addOwners(v.meta.OwnerReferences, references(budgets))
	if err != nil {
		return nil, false, fmt.Errorf("decide with DisruptionBook %s: %w", v.key(), err)
	}
	book, changed := decide(v.book)
	if !changed {
		return v, false, nil
	}
	next := &version{v.meta, book}
	next.meta.OwnerReferences = refs
	return next, true, nil
}

// join makes the budgets share one book, and returns its name.
func (b *Books) join(ctx context.Context, namespace string, budgets []Owner) (client.ObjectKey, error) {
	names, err := namesOf(budgets)
	if err != nil {
		return client.ObjectKey{}, err
	}
	known, versions := ledger.Books{}, map[string]*version{}
	for range mostSteps {
		step := ledger.Next(known, names)
		key := client.ObjectKey{Namespace: namespace, Name: step.Name}
		switch step.Do {
		case ledger.Done:
			return key, nil
		case ledger.DoRead:
		case ledger.DoMake:
			err = b.create(ctx, key, step, budgets)
		default:
			err = b.step(ctx, key, step, versions[step.Other])
		}
		if err != nil {
			return key, fmt.Errorf("join books in namespace %s: %w", namespace, err)
		}
		if versions[step.Name], err = b.read(ctx, key); err != nil {
			return key, err
		}
		known[step.Name] = nil
		if v := versions[step.Name]; v != nil {
			known[step.Name] = &v.book
		}
	}
	return client.ObjectKey{}, fmt.Errorf("join books in namespace %s: not done after %d steps", namespace, mostSteps)
}

// step does one step of a join. A step that came too late changes nothing.
func (b *Books) step(ctx context.Context, key client.ObjectKey, step ledger.Step, other *version) error {
	_, err := b.apply(ctx, key, func(v *version) (*version, bool, error) {
		return stepOn(v, step, other, b.Clock.Now())
	})
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

func stepOn(v *version, step ledger.Step, other *version, now time.Time) (*version, bool, error) {
	var from version
	if step.Do == ledger.DoAbsorb {
		from = *other
	}
	book, ok := step.Apply(v.book, from.book, now)
	if !ok {
		return nil, false, errChanged
	}
	if !ledger.Fits(book) {
		return nil, false, fmt.Errorf("take over DisruptionBook %s: %w", step.Other, ErrFull)
	}
	next := &version{v.meta, book}
	refs, err := addOwners(v.meta.OwnerReferences, from.meta.OwnerReferences)
	if err != nil {
		return nil, false, fmt.Errorf("take over DisruptionBook %s: %w", step.Other, err)
	}
	next.meta.OwnerReferences = refs
	return next, true, nil
}

// create makes a new book. A book that another replica made first is read.
func (b *Books) create(ctx context.Context, key client.ObjectKey, step ledger.Step, budgets []Owner) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v := &version{book: step.New(), meta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, OwnerReferences: references(ownersOf(key.Name, budgets)),
	}}
	o, now := v.object(), b.Clock.Now()
	switch err := b.Client.Create(ctx, o); {
	case apierrors.IsAlreadyExists(err):
		return b.readLive(ctx, key)
	case err != nil:
		return fmt.Errorf("create DisruptionBook %s: %w", key, err)
	}
	b.memory.put(key, read(o), now)
	return nil
}
