package cluster

import (
	"context"
	"fmt"
	"reflect"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Store is the objects of one kind as they lie in a cache. A list through the cache's reader
// copies each object's struct, which costs more than the decision about thousands of pods.
type Store[T client.Object] struct{ indexer toolscache.Indexer }

// StoreOf returns the store of the kind of an object, which must be one that the cache holds of all namespaces.
func StoreOf[T client.Object](ctx context.Context, informers cache.Informers, of T, how ...cache.InformerGetOption) (Store[T], error) {
	informer, err := informers.GetInformer(ctx, of, how...)
	if err != nil {
		return Store[T]{}, fmt.Errorf("get informer of %T: %w", of, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return Store[T]{}, fmt.Errorf("informer of %T is %T, which has no store", of, informer)
	}
	return Store[T]{shared.GetIndexer()}, nil
}

// In returns the objects of a namespace, which callers must not change.
func (s Store[T]) In(namespace string) ([]T, error) {
	found, err := s.indexer.ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("list %s in namespace %s: %w", reflect.TypeFor[T](), namespace, err)
	}
	return objects[T](found), nil
}

// All returns the objects of all namespaces, which callers must not change.
func (s Store[T]) All() []T { return objects[T](s.indexer.List()) }

func objects[T client.Object](found []any) []T {
	all := make([]T, 0, len(found))
	for _, o := range found {
		if object, ok := o.(T); ok {
			all = append(all, object)
		}
	}
	return all
}

// Get returns the object of a name, which callers must not change; false where there is none.
func (s Store[T]) Get(namespace, name string) (object T, found bool) {
	if o, exists, err := s.indexer.GetByKey(namespace + "/" + name); exists && err == nil {
		object, found = o.(T)
	}
	return object, found
}

// Count returns how many objects a namespace has, without a look at them.
func (s Store[T]) Count(namespace string) (int, error) {
	keys, err := s.indexer.IndexKeys(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return 0, fmt.Errorf("count %s in namespace %s: %w", reflect.TypeFor[T](), namespace, err)
	}
	return len(keys), nil
}

// Version is the newest resource version that the store shows: of its objects, of those that
// are gone, and of the bookmarks that the API server sends while nothing changes.
func (s Store[T]) Version() string { return s.indexer.LastStoreSyncResourceVersion() }

// Behind reports whether a resource version is older than a known one. Versions that cannot be
// compared are not.
func Behind(version, known string) bool { return behind(version, known) }
