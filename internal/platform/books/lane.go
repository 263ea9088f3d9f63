package books

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// callTimeout is the longest time of one call of the API server.
const callTimeout = 5 * time.Second

// errGone is returned where a book does not exist any more, so that it has to be made again.
var errGone = errors.New("the book does not exist")

// change makes a new version of a book, and reports whether to write it. It is called again
// after a conflict.
type change func(*version) (*version, bool, error)

// request is a change that waits for the write of a book.
type request struct {
	change    change
	answer    chan answer // has a place for the one answer
	conflicts atomic.Int32

	mu   sync.Mutex // held while the change is called
	left bool       // the caller waits no longer
}

type answer struct {
	book ledger.Book
	err  error
}

// apply changes a book, and waits until the result is written or ctx ends.
func (b *Books) apply(ctx context.Context, key client.ObjectKey, c change) (ledger.Book, error) {
	r := &request{change: c, answer: make(chan answer, 1)}
	b.enqueue(ctx, key, r)
	select {
	case a := <-r.answer:
		return a.book, a.err
	case <-ctx.Done():
		r.leave()
		return ledger.Book{}, fmt.Errorf("change DisruptionBook %s: after %d conflicts with other replicas: %w", key, r.conflicts.Load(), ctx.Err())
	}
}

// leave makes sure that the change is not called any more.
func (r *request) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
}

// enqueue adds a request to the lane of its book, and starts the lane if it is at rest.
func (b *Books) enqueue(ctx context.Context, key client.ObjectKey, r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting, runs := b.lanes[key]
	b.lanes[key] = append(waiting, r)
	if !runs {
		go b.run(context.WithoutCancel(ctx), key)
	}
}

// run serves the requests of a book until none is left.
func (b *Books) run(ctx context.Context, key client.ObjectKey) {
	for {
		b.mu.Lock()
		batch := b.lanes[key]
		if len(batch) == 0 {
			delete(b.lanes, key)
			b.mu.Unlock()
			return
		}
		b.lanes[key] = nil
		b.mu.Unlock()
		for len(batch) > 0 {
			batch = b.serve(ctx, key, batch)
		}
	}
}

// serve writes the result of a batch of requests, and answers them. It returns those that have
// to be decided again after a conflict.
func (b *Books) serve(ctx context.Context, key client.ObjectKey, batch []*request) []*request {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := b.read(ctx, key)
	if err != nil {
		finish(batch, answer{err: err})
		return nil
	}
	now, notes := b.withNotes(key, now)
	next, decided, changed := decideAll(batch, now)
	switch {
	case len(decided) == 0:
		return nil
	case changed:
		if err = b.write(ctx, next); err == nil {
			b.replaceNotes(key, notes, nil)
		}
	default:
		err = b.verify(ctx, key, next)
	}
	switch {
	case cluster.Conflict(err), apierrors.IsNotFound(err):
		return b.again(ctx, key, decided)
	case err != nil:
		err = fmt.Errorf("write DisruptionBook %s: %w", key, err)
	}
	for _, d := range decided {
		d.answer <- answer{d.book, err}
	}
	return nil
}

// verify returns a conflict when a book is not the newest version. A decision from an old
// book could rely on an entry that was removed. The metadata of the book are enough for that.
func (b *Books) verify(ctx context.Context, key client.ObjectKey, v *version) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(limpetv1alpha1.GroupVersion.WithKind("DisruptionBook"))
	switch err := b.Live.Get(ctx, key, live); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get metadata of DisruptionBook %s: %w", key, err)
	case err != nil || live.ResourceVersion != v.meta.ResourceVersion:
		return apierrors.NewConflict(limpetv1alpha1.GroupVersion.WithResource("disruptionbooks").GroupResource(), key.Name, errOld)
	}
	return nil
}

// again reads a book past the cache, for requests that are to be decided again.
func (b *Books) again(ctx context.Context, key client.ObjectKey, decided []decidedRequest) []*request {
	var batch []*request
	for _, d := range decided {
		d.conflicts.Add(1)
		batch = append(batch, d.request)
	}
	if err := b.readLive(ctx, key); err != nil {
		finish(batch, answer{err: err})
		return nil
	}
	return batch
}

// decidedRequest is a request with the book that it decided.
type decidedRequest struct {
	*request
	book ledger.Book
}

// decideAll calls the changes one after the other. A change that fails is answered at once,
// and does not count.
func decideAll(batch []*request, v *version) (next *version, decided []decidedRequest, changed bool) {
	for _, r := range batch {
		to, write, err := r.decide(v)
		switch {
		case errors.Is(err, errLeft):
			continue
		case err != nil:
			r.answer <- answer{err: err}
			continue
		case write:
			v, changed = to, true
		}
		decided = append(decided, decidedRequest{r, v.book})
	}
	return v, decided, changed
}

var (
	errLeft = errors.New("the caller waits no longer")
	errOld  = errors.New("the book is not the newest version")
)

// decide calls the change, unless the caller waits no longer. A panic is an error of this
// request, as it would be in the caller's own goroutine.
func (r *request) decide(v *version) (next *version, write bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return nil, false, errLeft
	}
	if v == nil {
		return nil, false, errGone
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("change DisruptionBook %s: panic: %v", v.key(), p)
		}
	}()
	return r.change(v)
}

func finish(batch []*request, a answer) {
	for _, r := range batch {
		r.answer <- a
	}
}

// write makes a compare-and-set, and remembers the result.
func (b *Books) write(ctx context.Context, v *version) error {
	o, now := v.object(), b.Clock.Now()
	if err := b.Client.Update(ctx, o); err != nil {
		return err
	}
	b.memory.put(v.key(), read(o), now)
	return nil
}
