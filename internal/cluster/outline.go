package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/limpet-io/limpet/pkg/workload"
)

// Outline is what can be read of a pod in the cache without unpacking it.
type Outline struct {
	packed *packedPod
	pod    *corev1.Pod // the pod, or what it shares with others
}

// outlineOf returns the outline of an entry of a store; false for any other object.
func outlineOf(o any) (Outline, bool) {
	switch p := o.(type) {
	case *packedPod:
		return Outline{p, &p.shape.pod}, true
	case *corev1.Pod:
		return Outline{nil, p}, true
	}
	return Outline{}, false
}

// Namespace returns the namespace of the pod.
func (o Outline) Namespace() string {
	if o.packed != nil {
		return o.packed.namespace.Value()
	}
	return o.pod.Namespace
}

// Bound tells whether the pod has a node.
func (o Outline) Bound() bool {
	if o.packed != nil {
		return o.packed.node.Value() != ""
	}
	return o.pod.Spec.NodeName != ""
}

// Ending tells whether the deletion of the pod has begun.
func (o Outline) Ending() bool { return o.pod.DeletionTimestamp != nil }

// Gates returns the scheduling gates of the pod.
func (o Outline) Gates() []corev1.PodSchedulingGate { return o.pod.Spec.SchedulingGates }

// Owner returns the controller of the pod; false for a pod without one.
func (o Outline) Owner() (workload.Owner, bool) { return workload.ControllerOf(o.pod) }

// Annotated tells whether the cache keeps an annotation of the pod.
func (o Outline) Annotated(name string) bool {
	if o.packed != nil {
		return hasNote(o.packed.notes, name)
	}
	_, ok := o.pod.Annotations[name]
	return ok
}

// EachPod calls a function with the outline of each pod in a cache. A list would unpack all of them
// at once.
func EachPod(ctx context.Context, informers cache.Informers, do func(Outline)) error {
	store, err := StoreOf(ctx, informers, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("read all pods: %w", err)
	}
	from := store.indexer
	if packed, ok := from.(*packedStore); ok {
		from = packed.Indexer
	}
	for _, o := range from.List() {
		if outline, ok := outlineOf(o); ok {
			do(outline)
		}
	}
	return nil
}
