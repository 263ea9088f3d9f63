package cluster

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// packing is an informer whose store holds packed pods, and keeps only the keys of indexes that are
// read. Its readers and handlers see pods as if they were not packed. Other kinds are not packed.
type packing struct {
	toolscache.SharedIndexInformer
	store  *packedStore
	shapes shapes
}

// newPacking makes an informer. The indexes are those of which not each key is kept.
func newPacking(lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexes map[string]Index) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(lw, kind, resync, toolscache.Indexers{toolscache.NamespaceIndex: namespaceOf})
	return &packing{
		SharedIndexInformer: informer,
		store:               &packedStore{Indexer: informer.GetIndexer(), indexes: indexes, asked: toolscache.Indexers{}},
	}
}

// namespaceOf is the index by namespace.
func namespaceOf(o any) ([]string, error) {
	if p, ok := o.(*packedPod); ok {
		return []string{p.namespace.Value()}, nil
	}
	return toolscache.MetaNamespaceIndexFunc(o)
}

// SetTransform packs what a transformation returns.
func (i *packing) SetTransform(transform toolscache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(o any) (any, error) {
		if transform != nil {
			var err error
			if o, err = transform(o); err != nil {
				return nil, err
			}
		}
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return o, nil // packed before, or the last known state of a deleted pod
		}
		packed := i.shapes.pack(pod)
		if p, ok := packed.(*packedPod); ok {
			i.store.lately.keep(p, pod) // handlers and indexes are about to read it
		}
		return packed, nil
	})
}

// GetStore returns the store.
func (i *packing) GetStore() toolscache.Store { return i.store }

// GetIndexer returns the store.
func (i *packing) GetIndexer() toolscache.Indexer { return i.store }

// AddIndexers adds indexes.
func (i *packing) AddIndexers(indexers toolscache.Indexers) error {
	kept := toolscache.Indexers{}
	for name, keys := range indexers {
		i.store.asked[name] = keys
		kept[name] = i.store.keysOf(name, keys)
	}
	return i.SharedIndexInformer.AddIndexers(kept)
}

// AddEventHandler adds a handler.
func (i *packing) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.unpacked(h))
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *packing) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.unpacked(h), resync)
}

// AddEventHandlerWithOptions adds a handler.
func (i *packing) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.unpacked(h), o)
}

// unpacked makes a handler see pods. A selective handler chooses before they are unpacked.
func (i *packing) unpacked(h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	if s, ok := h.(selective); ok {
		return selective{unpacking{s.ResourceEventHandler, &i.store.lately}, s.atStart}
	}
	return unpacking{h, &i.store.lately}
}

// unpacking is a handler that sees pods.
type unpacking struct {
	toolscache.ResourceEventHandler
	lately *lately
}

// OnAdd handles a new pod.
func (u unpacking) OnAdd(o any, initial bool) {
	u.ResourceEventHandler.OnAdd(u.lately.full(o), initial)
}

// OnUpdate handles a changed pod.
func (u unpacking) OnUpdate(before, after any) {
	u.ResourceEventHandler.OnUpdate(u.lately.full(before), u.lately.full(after))
}

// OnDelete handles a deleted pod, or its last known state.
func (u unpacking) OnDelete(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		last.Obj = u.lately.full(last.Obj)
		o = last
	}
	u.ResourceEventHandler.OnDelete(u.lately.full(o))
}

// packedStore is the store of an informer, as readers see it.
type packedStore struct {
	toolscache.Indexer
	lately  lately
	indexes map[string]Index
	asked   toolscache.Indexers // as they were added
}

const (
	fieldPrefix      = "field:"            // of the names of indexes by field
	everywherePrefix = "__all_namespaces/" // of keys that are read without a namespace
)

// groups is the number of keys of an index whose values are scattered. A key of the store's own
// index costs 300 bytes, however few objects have it.
const groups = 1 << 13

var groupSeed = maphash.MakeSeed()

// group is the key of the values of an index that are kept together.
func group(value string) string {
	return strconv.FormatUint(maphash.String(groupSeed, value)%groups, 36)
}

// errUnread is returned for a key that the cache does not keep.
var errUnread = errors.New("index is declared to be read in another scope")

// reads reports whether a key of the store is kept.
func (i Index) reads(key string) bool {
	return i.read == eitherWay || (i.read == everywhere) == strings.HasPrefix(key, everywherePrefix)
}

// keysOf makes the keys of an index: only those that are read.
func (s *packedStore) keysOf(name string, keys toolscache.IndexFunc) toolscache.IndexFunc {
	index := s.indexes[name]
	return func(o any) ([]string, error) {
		values, err := keys(s.lately.full(o))
		if err != nil {
			return nil, err
		}
		values = slices.DeleteFunc(values, func(value string) bool { return !index.reads(value) })
		if index.scattered {
			for i := range values {
				values[i] = group(values[i])
			}
		}
		return values, nil
	}
}

// ByIndex returns the pods with a value of an index.
func (s *packedStore) ByIndex(name, value string) ([]any, error) {
	index, keys := s.indexes[name], s.asked[name]
	if !index.reads(value) {
		return nil, fmt.Errorf("%w: %s is read by %q", errUnread, name, value)
	}
	if !index.scattered {
		entries, err := s.Indexer.ByIndex(name, value)
		return s.lately.all(entries), err
	}
	entries, err := s.Indexer.ByIndex(name, group(value))
	if err != nil {
		return nil, err
	}
	var found []any
	for _, pod := range s.lately.all(entries) {
		values, err := keys(pod)
		if err != nil {
			return nil, err
		}
		if slices.Contains(values, value) {
			found = append(found, pod)
		}
	}
	return found, nil
}

// Index returns the pods that share a value with a pod.
func (s *packedStore) Index(name string, of any) ([]any, error) {
	entries, err := s.Indexer.Index(name, of)
	return s.lately.all(entries), err
}

// List returns all pods.
func (s *packedStore) List() []any { return s.lately.all(s.Indexer.List()) }

// Get returns a pod.
func (s *packedStore) Get(of any) (o any, found bool, err error) {
	o, found, err = s.Indexer.Get(of)
	return s.lately.full(o), found, err
}

// GetByKey returns a pod.
func (s *packedStore) GetByKey(key string) (o any, found bool, err error) {
	o, found, err = s.Indexer.GetByKey(key)
	return s.lately.full(o), found, err
}

// GetIndexers returns the indexes as they were added.
func (s *packedStore) GetIndexers() toolscache.Indexers { return s.asked }
