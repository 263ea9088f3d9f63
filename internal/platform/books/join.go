package books

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// mostSteps bounds the steps towards one book. Another replica may make a step needless, but
// does a step itself each time.
const mostSteps = 64 * MostBudgets

// joining is the way to one book for some budgets.
type joining struct {
	namespace string
	budgets   []Owner
	names     []string
	known     ledger.Books
	versions  map[string]*version // of the known books
}

// join makes the budgets share one book, and returns its name.
func (b *Books) join(ctx context.Context, namespace string, budgets []Owner) (client.ObjectKey, error) {
	names, err := namesOf(budgets)
	if err != nil {
		return client.ObjectKey{}, err
	}
	j := &joining{namespace, budgets, names, ledger.Books{}, map[string]*version{}}
	for range mostSteps {
		step := ledger.Next(j.known, names)
		if step.Do == ledger.Done {
			return client.ObjectKey{Namespace: namespace, Name: step.Name}, nil
		}
		if err := b.advance(ctx, j, step); err != nil {
			return client.ObjectKey{}, fmt.Errorf("join books in namespace %s: %w", namespace, err)
		}
	}
	return client.ObjectKey{}, fmt.Errorf("join books in namespace %s: not done after %d steps", namespace, mostSteps)
}

// advance does one step, and reads the book of the step again.
func (b *Books) advance(ctx context.Context, j *joining, step ledger.Step) error {
	key := client.ObjectKey{Namespace: j.namespace, Name: step.Name}
	err := j.hasRoom(step)
	switch {
	case err != nil:
	case step.Do == ledger.DoRead:
	case step.Do == ledger.DoMake:
		err = b.create(ctx, key, step, j.budgets)
	default:
		err = b.step(ctx, key, step, j.versions[step.Other])
	}
	if err != nil {
		return err
	}
	v, err := b.read(ctx, key)
	if err != nil {
		return err
	}
	j.versions[step.Name], j.known[step.Name] = v, nil
	if v != nil {
		j.known[step.Name] = &v.book
	}
	return nil
}

// hasRoom tells, before a join begins, whether the other book can take over what this one
// has. A join that has begun must end, because a frozen book permits no pod to go.
func (j *joining) hasRoom(step ledger.Step) error {
	var refs []metav1.OwnerReference
	var book ledger.Book
	switch {
	case step.Other == "":
		return nil
	case step.Do == ledger.DoMake:
		refs = references(ownersOf(step.Name, j.budgets))
	case step.Do == ledger.DoFreeze:
		refs, book = j.versions[step.Name].meta.OwnerReferences, j.versions[step.Name].book
	default:
		return nil
	}
	into := j.versions[step.Other]
	if n := len(withoutPods(addOwners(into.meta.OwnerReferences, refs))); n > MostOwners {
		return fmt.Errorf("%w: %d budgets would share DisruptionBook %s, at most %d may", ErrManyBudgets, n, step.Other, MostOwners)
	}
	if !ledger.Fits(ledger.Merge(into.book, book)) {
		return fmt.Errorf("take over DisruptionBook %s: %w", step.Name, ErrFull)
	}
	return nil
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
	if !ledger.Fits(book) { // until entries expire
		return nil, false, fmt.Errorf("take over DisruptionBook %s: %w", step.Other, ErrFull)
	}
	next := &version{meta: v.meta, book: book}
	next.meta.OwnerReferences = addOwners(v.meta.OwnerReferences, from.meta.OwnerReferences)
	return next, true, nil
}

// create makes a new book. A book that another replica made first is read.
func (b *Books) create(ctx context.Context, key client.ObjectKey, step ledger.Step, budgets []Owner) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	refs := references(ownersOf(key.Name, budgets))
	var others ledger.Book
	if !ofSpread(refs) {
		var err error
		if others, err = b.entriesIn(ctx, key.Namespace); err != nil {
			return err
		}
	}
	now := b.Clock.Now()
	v := &version{book: step.New(others, now), meta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: refs}}
	if !ledger.Fits(v.book) {
		return fmt.Errorf("create DisruptionBook %s: %w", key, ErrFull)
	}
	o := v.object()
	switch err := b.Client.Create(ctx, o); {
	case apierrors.IsAlreadyExists(err):
		return b.readLive(ctx, key)
	case err != nil:
		return fmt.Errorf("create DisruptionBook %s: %w", key, err)
	}
	b.memory.put(key, read(o), now)
	return nil
}

// entriesIn returns the entries of all books of budgets in a namespace, and the newest version of
// pods that they rely on. The cache may lack an entry of the last moment: for so long, also,
// another replica may not know of a new budget.
func (b *Books) entriesIn(ctx context.Context, namespace string) (ledger.Book, error) {
	var list limpetv1alpha1.DisruptionBookList
	if err := b.Cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ledger.Book{}, fmt.Errorf("list DisruptionBooks in namespace %s: %w", namespace, err)
	}
	var others []ledger.Book
	count := 0
	for i := range list.Items {
		o := &list.Items[i]
		v := b.memory.newest(client.ObjectKeyFromObject(o), read(o), b.Clock.Now())
		if v == nil || ofSpread(o.OwnerReferences) || len(v.book.Entries) == 0 && v.book.Seen == "" {
			continue
		}
		if count += len(v.book.Entries); count > 2*ledger.MostJoined {
			return ledger.Book{}, fmt.Errorf("%w in namespace %s", ErrFull, namespace)
		}
		others = append(others, ledger.Book{Entries: v.book.Entries, Seen: v.book.Seen})
	}
	return ledger.Merge(ledger.Book{}, others...), nil
}
