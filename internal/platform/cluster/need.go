package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Needs is what a feature reads from the caches.
type Needs struct {
	Objects []Need
	Indexes []Index
}

// Need is what a feature reads of one kind of object.
type Need struct {
	object client.Object
	parts  []func(from, to client.Object)
	named  string   // the one object to hold; "" for all
	in     []string // the namespaces to hold it of
	most   int      // objects of one writer; 0 for no bound
	writer func(client.Object) string
	nodes  *atomic.Pointer[toolscache.SharedIndexInformer] // nil inside before it is made
}

// Part copies what a feature reads of an object into the copy that the cache keeps. Parts
// of several features may copy the same field.
type Part[T client.Object] func(from, to T)

// Of needs some parts of each object of a kind, beside its identity. Without parts it
// needs whole objects.
func Of[T client.Object](parts ...Part[T]) Need {
	need := Need{object: newObject[T]()}
	for _, part := range parts {
		need.parts = append(need.parts, func(from, to client.Object) { part(from.(T), to.(T)) })
	}
	return need
}

// Named restricts a need to the object of one name in some namespaces.
func (n Need) Named(name string, namespaces ...string) Need {
	n.named, n.in = name, namespaces
	return n
}

// CacheOptions configures a cache that holds what all features need.
func CacheOptions(features ...Needs) cache.Options {
	return cacheOptions(&notReady{clock: clock.RealClock{}}, features)
}

func cacheOptions(n *notReady, features []Needs) cache.Options {
	options := cache.Options{
		DefaultTransform:         keepMost,
		DefaultWatchErrorHandler: watchFailed,
		ByObject:                 map[client.Object]cache.ByObject{},
	}
	byKind := union(features)
	if nodes := byKind[reflect.TypeFor[*corev1.Node]()]; nodes != nil && len(nodes.parts) > 0 {
		nodes.parts = slices.Concat(nodes.parts, Of(n.note).parts)
	}
	options.NewInformer = informers(byKind, indexesByKind(features), n)
	for _, need := range byKind {
		var by cache.ByObject
		if need.named != "" {
			by.Field, by.Namespaces = fields.OneTermEqualSelector("metadata.name", need.named), map[string]cache.Config{}
			for _, namespace := range need.in {
				by.Namespaces[namespace] = cache.Config{}
			}
		}
		if len(need.parts) > 0 {
			by.Transform = need.keep
		}
		options.ByObject[need.object] = by
	}
	return options
}

// watchFailed logs why a watch failed. That a CRD was removed is no error: the watch of its kind ends soon after.
func watchFailed(ctx context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		log.FromContext(ctx).Info("The API server does not serve a kind that is watched", "type", r.TypeDescription(), "reason", err.Error())
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}

// HoldAll makes a cache hold the kinds of all features from its start, so that no request waits for the first list of one.
func HoldAll(ctx context.Context, informers cache.Informers, features ...Needs) error {
	for _, feature := range features {
		for _, need := range feature.Objects {
			if _, err := informers.GetInformer(ctx, need.object, cache.BlockUntilSynced(false)); err != nil {
				return fmt.Errorf("hold objects of type %T: %w", need.object, err)
			}
		}
	}
	return nil
}

// keepMost is the transformation for kinds of which no parts are named. Of workloads of further
// kinds it keeps the metadata, or how many pods of which labels they want.
func keepMost(o any) (any, error) {
	switch of := o.(type) {
	case *metav1.PartialObjectMetadata:
		return ShortMetadata(of), nil
	case *unstructured.Unstructured:
		return shortWorkload(of), nil
	}
	return cache.TransformStripManagedFields()(o)
}

// ShortMetadata returns the identity of a workload, its controller and the annotations of Limpet.
// Users write the rest, and nothing bounds its length.
func ShortMetadata(of *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	short := &metav1.PartialObjectMetadata{TypeMeta: of.TypeMeta}
	keepIdentity(of, short)
	OwnAnnotations(of, short)
	Owners(of, short)
	return short
}

// union joins the needs of one kind of all features. A feature that needs whole objects
// gets them. Needs that are restricted in different ways are joined without a restriction.
func union(features []Needs) map[reflect.Type]*Need {
	byKind := map[reflect.Type]*Need{}
	for _, feature := range features {
		for _, need := range feature.Objects {
			kind := reflect.TypeOf(need.object)
			known, ok := byKind[kind]
			if !ok {
				byKind[kind] = &need
				continue
			}
			if need.most > known.most {
				known.most, known.writer = need.most, need.writer
			}
			if known.named != need.named || !slices.Equal(known.in, need.in) {
				known.named, known.in = "", nil
			}
			if len(known.parts) == 0 || len(need.parts) == 0 {
				known.parts = nil
				continue
			}
			known.parts = slices.Concat(known.parts, need.parts) // the features keep their own slices
		}
	}
	return byKind
}

// keep is the transformation that a cache applies to the objects of the kind.
func (n *Need) keep(o any) (any, error) {
	from, ok := o.(client.Object)
	if !ok || reflect.TypeOf(o) != reflect.TypeOf(n.object) {
		return o, nil // such as the last known state of a deleted object
	}
	to, ok := reflect.TypeAssert[client.Object](reflect.New(reflect.TypeOf(n.object).Elem()))
	if !ok {
		return nil, fmt.Errorf("make %T: not an object", n.object)
	}
	keepIdentity(from, to)
	for _, part := range n.parts {
		part(from, to)
	}
	return to, nil
}

func keepIdentity(from, to metav1.Object) {
	to.SetName(from.GetName())
	to.SetNamespace(from.GetNamespace())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetGeneration(from.GetGeneration())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}
