package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// First tells whether a handler gets a pod that was there when the handler began. Each later event
// of the pod reaches the handler.
type First func(Outline) bool

// NoneFirst is for handlers whose objects are all handled at a start, whatever their pods say.
func NoneFirst(Outline) bool { return false }

// PodEvents are the events of pods for a controller. The pods of a large cluster that first refuses
// are not even unpacked when the controller starts.
func PodEvents[R comparable](from cache.Cache, first First, h handler.TypedEventHandler[client.Object, R], predicates ...predicate.Predicate) source.TypedSource[R] {
	return source.TypedKind[client.Object](beginning{from, first}, &corev1.Pod{}, h, predicates...)
}

// beginning is a cache whose informers begin with some of their pods.
type beginning struct {
	cache.Cache
	first First
}

// GetInformer returns an informer.
func (b beginning) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := b.Cache.GetInformer(ctx, o, options...)
	if err != nil {
		return nil, err
	}
	return beginningInformer{informer, b.first}, nil
}

type beginningInformer struct {
	cache.Informer
	first First
}

// AddEventHandlerWithOptions adds a handler.
func (i beginningInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(selective{h, i.first}, o)
}

// selective is a handler that gets some of the pods that were there when it began.
type selective struct {
	toolscache.ResourceEventHandler
	first First
}

// OnAdd handles a new pod.
func (s selective) OnAdd(o any, initial bool) {
	if initial {
		if outline, ok := outlineOf(o); ok && !s.first(outline) {
			return
		}
	}
	s.ResourceEventHandler.OnAdd(o, initial)
}

// Beginning makes a handler of pods one that first refuses some of those that were there when it began.
func Beginning(first First, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return selective{h, first}
}
