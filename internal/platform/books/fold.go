package books

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	// pointerAge is when the replicas of the earlier version are gone, which follow pointers.
	pointerAge = time.Hour
	// foldsAtOnce bounds the old books of a namespace that are folded at a time.
	foldsAtOnce = 8
)

// fold brings the books that an earlier version made, one for each budget, into the book of the namespace:
//
//	point   the old book points to the new one, so that no replica of any version changes its entries
//	merge   the new book takes the entries over
//	close   the old book gives them up
//
// Each step is a compare-and-set, and may be done again by any replica. Entries that were taken over
// twice end as others do. A replica of the earlier version follows the pointer.
func (b *Books) fold(ctx context.Context, namespace string) error {
	old, err := b.oldBooks(ctx, namespace)
	if old = slices.DeleteFunc(old, (*version).folded); err != nil || len(old) == 0 {
		return err
	}
	if err := b.ensure(ctx, OfBudgets(namespace)); err != nil { // before a pointer leads to it
		return err
	}
	errs := make([]error, len(old))
	places := make(chan struct{}, foldsAtOnce)
	var wg sync.WaitGroup
	for i, v := range old {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = b.foldBook(ctx, v.key())
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Tidy folds, takes the book from owners that the earlier version gave it, and deletes the pointers that no
// replica follows any more.
func (b *Books) Tidy(ctx context.Context, namespace string) error {
	errs := []error{b.fold(ctx, namespace)}
	if v, err := b.read(ctx, OfBudgets(namespace).object); err == nil && v != nil && len(v.meta.OwnerReferences) > 0 {
		_, err = b.Change(ctx, OfBudgets(namespace), func(book ledger.Book) (ledger.Book, bool) { return book, false })
		errs = append(errs, err)
	}
	if b.Clock.Now().Sub(b.began) < pointerAge {
		return errors.Join(errs...)
	}
	old, err := b.oldBooks(ctx, namespace)
	errs = append(errs, err)
	for _, v := range old {
		if v.folded() {
			err := b.Client.Delete(ctx, v.object(), client.Preconditions{ResourceVersion: &v.meta.ResourceVersion})
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(errs...)
}

// oldBooks are the books of an earlier version.
func (b *Books) oldBooks(ctx context.Context, namespace string) (old []*version, err error) {
	var list limpetv1alpha1.DisruptionBookList
	if err := b.Cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list DisruptionBooks in namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if o.Name == nameOfBudgets || ofSpread(o.OwnerReferences) {
			continue
		}
		if v := b.memory.newest(client.ObjectKeyFromObject(o), read(o), b.Clock.Now()); v != nil {
			old = append(old, v)
		}
	}
	return old, nil
}

func ofSpread(refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.Kind == spreadKind })
}

// folded reports whether the book of the namespace has what an old book held.
func (v *version) folded() bool { return v.joined == nameOfBudgets && v.moved }

// foldBook does all steps for one old book, each again after a conflict.
func (b *Books) foldBook(ctx context.Context, key client.ObjectKey) error {
	for ctx.Err() == nil {
		v, err := b.read(ctx, key)
		if err == nil && (v == nil || v.folded()) {
			return nil
		}
		if err == nil {
			err = b.foldStep(ctx, v)
		}
		if cluster.Conflict(err) || apierrors.IsNotFound(err) {
			err = b.readLive(ctx, key)
		}
		if err != nil {
			return fmt.Errorf("fold DisruptionBook %s: %w", key, err)
		}
	}
	return fmt.Errorf("fold DisruptionBook %s: %w", key, ctx.Err())
}

// foldStep does the next step. A book that was closed by the earlier version has nothing to give.
func (b *Books) foldStep(ctx context.Context, v *version) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if v.joined != nameOfBudgets {
		empty := v.moved && len(v.book.Entries) == 0
		return b.write(ctx, &version{meta: v.meta, book: v.book, joined: nameOfBudgets, moved: empty})
	}
	if err := b.merge(ctx, v); err != nil {
		return err
	}
	return b.write(ctx, &version{meta: v.meta, joined: nameOfBudgets, moved: true})
}

// merge brings what an old book holds into the book of its namespace, all of it or nothing.
func (b *Books) merge(ctx context.Context, v *version) error {
	old, now := v.book, b.Clock.Now()
	old.Entries = maps.Clone(old.Entries)
	maps.DeleteFunc(old.Entries, func(_ string, e ledger.Entry) bool { return !e.Holds(now) })
	fits := true
	_, err := b.Change(ctx, OfBudgets(v.meta.Namespace), func(book ledger.Book) (ledger.Book, bool) {
		next := ledger.Merge(book, old)
		fits = ledger.Fits(next)
		return next, fits
	})
	if err == nil && !fits {
		return ErrFull
	}
	return err
}
