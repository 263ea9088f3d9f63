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

// AtStart reports whether a handler gets a pod that was there when the handler began. Each later event
// of the pod reaches the handler.
type AtStart func(Outline) bool

// NoneAtStart is for handlers whose objects are all handled at a start, whatever their pods say.
func NoneAtStart(Outline) bool { return false }

// PodEvents are the events of pods for a controller. The pods of a large cluster that atStart refuses
// are not even unpacked when the controller starts.
func PodEvents[R comparable](from cache.Cache, atStart AtStart, h handler.TypedEventHandler[client.Object, R], predicates ...predicate.Predicate) source.TypedSource[R] {
	return source.TypedKind[client.Object](beginning{from, atStart}, &corev1.Pod{}, h, predicates...)
}

// beginning is a cache whose informers begin with some of their pods.
type beginning struct {
	cache.Cache
	atStart AtStart
}

// GetInformer returns an informer.
func (b beginning) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := b.Cache.GetInformer(ctx, o, options...)
	if err != nil {
		return nil, err
	}
	return beginningInformer{informer, b.atStart}, nil
}

type beginningInformer struct {
	cache.Informer
	atStart AtStart
}

// AddEventHandlerWithOptions adds a handler.
func (i beginningInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(selective{h, i.atStart}, o)
}

// selective is a handler that gets some of the pods that were there when it began.
type selective struct {
	toolscache.ResourceEventHandler
	atStart AtStart
}

// OnAdd handles a new pod.
func (s selective) OnAdd(o any, initial bool) {
	if initial {
		if outline, ok := outlineOf(o); ok && !s.atStart(outline) {
			return
		}
	}
	s.ResourceEventHandler.OnAdd(o, initial)
}

// Beginning makes a handler of pods one that atStart refuses some of those that were there when it began.
func Beginning(atStart AtStart, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return selective{h, atStart}
}
