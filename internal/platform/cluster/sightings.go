package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// sightingGrace is how much longer a deleted pod is remembered than its addresses may be
// reserved: a reservation begins when the runtime ends the pod, which may be later.
const sightingGrace = time.Hour

// mostSightings bounds the memory, since a tenant can create and delete any number of bound pods.
var mostSightings = fair.Bounds{Each: 5_000, All: 50_000}

// Sightings remembers on which node the last pod of each name ran. The scheduler bound it
// there, so that no agent can invent such a node: an IPReservation alone is the word of its
// node. Only memory holds sightings; a replica knows of no pod that was gone when it started.
type Sightings struct {
	// Retain returns for how long the addresses of a pod stay reserved after its end; 0 for
	// a pod that is not remembered.
	Retain func(*corev1.Pod) time.Duration
	Clock  clock.PassiveClock
	// Most is how many pods are remembered of a namespace, and of all; without bounds the default.
	Most fair.Bounds

	seen fair.Memory[string, sighting] // by the name of a pod or of an owner
}

// Life is one pod of a name that had addresses on a node.
type Life struct {
	UID     types.UID
	Node    string
	Created time.Time
	Seen    time.Time // when this replica last saw it
}

// sighting is a life that has ended.
type sighting struct {
	Life
	until time.Time // when the sighting counts no longer
}

// Follow remembers the pods of a cache, best before the cache is filled. A pod that ends is
// remembered when its deletion begins, before it is gone from the cache.
func (s *Sightings) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	_, err = informer.AddEventHandler(selective{toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.ending,
		UpdateFunc: func(_, o any) { s.ending(o) },
		DeleteFunc: s.deleted,
	}, Outline.Ending})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

// Last returns the last life of a pod that was seen on a node: the one that the cache shows,
// else the one that ended last. It returns nil when none was seen.
func (s *Sightings) Last(ctx context.Context, r client.Reader, pod client.ObjectKey) (*Life, error) {
	var now corev1.Pod
	if err := r.Get(ctx, pod, &now, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get pod %s: %w", pod, err)
	}
	if ran(&now) {
		return new(s.lifeOf(&now)), nil
	}
	if ended, ok := s.seen.Get(pod.Namespace, pod.Name); ok && s.Clock.Now().Before(ended.until) {
		return &ended.Life, nil
	}
	return nil, nil //nolint:nilnil // a pod that was never seen is an answer
}

// LastOf is Last for the pods of an owner, under whatever names.
func (s *Sightings) LastOf(ctx context.Context, r client.Reader, owner client.ObjectKey) (last *Life, err error) {
	if ended, ok := s.seen.Get(owner.Namespace, owner.Name); ok && s.Clock.Now().Before(ended.until) {
		last = &ended.Life
	}
	pods, err := PodsOfOwner(ctx, r, owner.Namespace, owner.Name)
	for i := range pods {
		if pod := &pods[i]; ran(pod) && (last == nil || last.Created.Before(pod.CreationTimestamp.Time)) {
			last = new(s.lifeOf(pod))
		}
	}
	return last, err
}

// ran reports whether a pod had addresses on its node. Without them it holds nothing, and
// succeeds to no other pod.
func ran(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && len(pod.Status.PodIPs) > 0
}

func (s *Sightings) lifeOf(pod *corev1.Pod) Life {
	return Life{UID: pod.UID, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time, Seen: s.Clock.Now()}
}

// ending remembers a pod whose deletion has begun.
func (s *Sightings) ending(o any) {
	if pod, ok := o.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
		s.remember(pod)
	}
}

// deleted remembers a pod that is gone, in its last known state.
func (s *Sightings) deleted(o any) {
	if pod := LastKnown[*corev1.Pod](o); pod != nil {
		s.remember(pod)
	}
}

// LastKnown returns the object of an event, in its last known state if it is gone; nil for another type.
func LastKnown[T any](o any) (of T) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	of, _ = o.(T)
	return of
}

func (s *Sightings) remember(pod *corev1.Pod) {
	retain := s.Retain(pod)
	if retain <= 0 || !ran(pod) {
		return
	}
	life := s.lifeOf(pod)
	name := reservation.OwnerName(pod.Name, pod.Annotations)
	s.seen.Put(cmp.Or(s.Most, mostSightings), pod.Namespace, name, sighting{life, life.Seen.Add(retain + sightingGrace)})
}
