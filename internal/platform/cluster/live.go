package cluster

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// liveTimeout is the longest time of one read.
const liveTimeout = 5 * time.Second

// Limits of the webhook for pods that are created, of the reads of a namespace.
var (
	// LimitUnproven is for pods whose workload the cache does not show: users can invent any
	// number of workloads. The waiting pods of a namespace take no more than two thirds of the
	// places that the webhook server has for one API server. Clients can invent namespaces, too.
	LimitUnproven = fair.Bounds{Each: 4, Waiting: 12, Requests: 200}
	// LimitProven is for pods of existing workloads. Reads of the same object are one.
	LimitProven = fair.Bounds{Each: 8}
	// LimitLabelled is for pods of namespaces whose label the cache shows. Their owners can be
	// invented, so that no more of these reads wait than of LimitUnproven.
	LimitLabelled = fair.Bounds{Each: 4, Waiting: 12}
)

// LiveReader reads past the cache for webhooks. Users choose what a webhook has to read, so
// that each namespace has few reads of its own, and others never wait for those. Reads of
// the same object that begin together are one.
type LiveReader struct {
	reader client.Reader
	turns  *fair.Semaphore[string] // by namespace

	mu      sync.Mutex
	waiting map[readKey]*oneRead // not begun yet, so that later requests may share them
}

// NewLiveReader bounds the reads of a reader.
func NewLiveReader(reader client.Reader, limits fair.Bounds) *LiveReader {
	return &LiveReader{reader: reader, turns: fair.NewSemaphore[string](limits), waiting: map[readKey]*oneRead{}}
}

// readKey identifies what is read. Objects that stand for metadata only differ by their kind.
type readKey struct {
	form reflect.Type
	kind schema.GroupVersionKind
	client.ObjectKey
	options string // of a list, as text
}

// oneRead is a read that several requests share. It is cancelled when no request waits for it.
type oneRead struct {
	done   chan struct{}
	object runtime.Object
	ask    func(context.Context, runtime.Object) error
	err    error

	requests int // that wait
	cancel   context.CancelFunc
}

// Get reads an object. It joins a read of the object that has not begun yet: a read that
// has begun may be older than what the request is about. Callers must not change the object,
// because they may share its parts.
func (r *LiveReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	place := key.Namespace
	if place == "" { // a Namespace takes the turn of what is in it
		place = key.Name
	}
	id := readKey{reflect.TypeOf(into), into.GetObjectKind().GroupVersionKind(), key, ""}
	return r.share(ctx, id, place, into, func(ctx context.Context, o runtime.Object) error {
		return r.reader.Get(ctx, key, o.(client.Object), opts...)
	})
}

// List lists objects of one namespace, in its turn. It joins a list with the same options as Get
// joins a read. Callers must not change the items.
func (r *LiveReader) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	id := readKey{form: reflect.TypeOf(into), kind: into.GetObjectKind().GroupVersionKind(), options: fmt.Sprintf("%+v", options.AsListOptions())}
	id.Namespace = options.Namespace
	return r.share(ctx, id, options.Namespace, into, func(ctx context.Context, o runtime.Object) error {
		return r.reader.List(ctx, o.(client.ObjectList), opts...)
	})
}

// share joins a read that has not begun yet, or makes one.
func (r *LiveReader) share(ctx context.Context, id readKey, place string, into runtime.Object, ask func(context.Context, runtime.Object) error) error {
	r.mu.Lock()
	read, joined := r.waiting[id]
	if !joined {
		shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
		read = &oneRead{done: make(chan struct{}), object: into.DeepCopyObject(), ask: ask, cancel: cancel}
		r.waiting[id] = read
		go r.run(shared, id, place, read)
	}
	read.requests++
	r.mu.Unlock()
	defer r.leave(id, read)
	select {
	case <-read.done:
	case <-ctx.Done():
		return fmt.Errorf("wait for a read in namespace %s: %w", place, ctx.Err())
	}
	if read.err != nil {
		return read.err
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(read.object).Elem())
	return nil
}

// leave ends the waiting of a request. Later requests do not join a cancelled read.
func (r *LiveReader) leave(id readKey, read *oneRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if read.requests--; read.requests == 0 {
		read.cancel()
		r.begin(id, read)
	}
}

// begin lets no further request join a read.
func (r *LiveReader) begin(id readKey, read *oneRead) {
	if r.waiting[id] == read {
		delete(r.waiting, id)
	}
}

// run makes one read in its turn.
func (r *LiveReader) run(ctx context.Context, id readKey, place string, read *oneRead) {
	defer close(read.done)
	leave, err := r.turns.Enter(ctx, place, 1)
	r.mu.Lock()
	r.begin(id, read)
	r.mu.Unlock()
	if err != nil {
		read.err = fmt.Errorf("wait for a read in namespace %s: %w", place, err)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	read.err = read.ask(ctx, read.object)
}
