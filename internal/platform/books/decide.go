package books

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// decideTimeout bounds a decision whose caller set no bound.
const decideTimeout = 10 * time.Second

// Decide decides about a pod: it calls decide with the book, and writes the result if decide
// returns true. decide must not change the book that it is given. It is called again after a
// conflict with another replica, never twice at a time, and not after Decide has returned.
//
// A cached book may be old. A write proves that it is not. Without a write, the book is read
// past the cache, and a newer one is decided with again.
func (b *Books) Decide(ctx context.Context, key Key, decide func(ledger.Book) (ledger.Book, bool)) (ledger.Book, error) {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if err := b.ensure(ctx, key); err != nil {
			return ledger.Book{}, err
		}
		book, err := b.apply(ctx, key.object, func(v *version) (*version, bool, error) {
			next, changed := decide(v.book)
			if !changed {
				return v, false, nil
			}
			return &version{meta: v.meta, book: next}, true, nil
		})
		if !errors.Is(err, errGone) {
			return book, err
		}
	}
	return ledger.Book{}, fmt.Errorf("change DisruptionBook %s: %w", key.object, ctx.Err())
}

// Look returns what a book holds in the cache, which may be old: for dry runs, for numbers and for
// refusals, which give no unit away and are asked for again. It writes nothing.
func (b *Books) Look(ctx context.Context, key Key) (ledger.Book, error) {
	v, err := b.read(ctx, key.object)
	if err != nil || v == nil {
		return ledger.Book{}, err
	}
	return v.book, nil
}

// ensure makes a book that does not exist. One that another replica made first is read.
func (b *Books) ensure(ctx context.Context, key Key) error {
	v, err := b.read(ctx, key.object)
	if err != nil || v != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := b.Clock.Now()
	v = &version{meta: metav1.ObjectMeta{Namespace: key.object.Namespace, Name: key.object.Name, OwnerReferences: key.owners}}
	o := v.object()
	switch err := b.Client.Create(ctx, o); {
	case apierrors.IsAlreadyExists(err):
		return b.readLive(ctx, key.object)
	case err != nil:
		return fmt.Errorf("create DisruptionBook %s: %w", key.object, err)
	}
	b.memory.put(key.object, read(o), now)
	return nil
}
