package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sightingGrace is how much longer a deleted pod is remembered than its addresses may be
// reserved: a reservation begins when the runtime ends the pod, which may be later.
const sightingGrace = time.Hour

// sweepInterval is the time between two removals of pods that need not be remembered.
const sweepInterval = 10 * time.Minute

// Sightings remembers on which nodes deleted pods ran. The scheduler bound them there, so
// that no agent can invent such a node: an IPReservation alone is the word of its node.
// Only memory holds sightings; a replica knows of no pod that was gone when it started.
type Sightings struct {
	// Retain returns for how long the addresses of a pod stay reserved after its end; 0 for
	// a pod that is not remembered.
	Retain func(*corev1.Pod) time.Duration
	Clock  clock.PassiveClock

	mu    sync.Mutex
	seen  map[client.ObjectKey][]sighting
	swept time.Time
}

// Life is one pod of a name that was bound to a node.
type Life struct {
	UID     types.UID
	Node    string
	Created time.Time
}

// sighting is a life that has ended.
type sighting struct {
	Life
	until time.Time // when the sighting is forgotten
}

// Follow remembers the pods of a cache, best before the cache is filled. A pod that ends is
// remembered when its deletion begins, before it is gone from the cache.
func (s *Sightings) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.ending,
		UpdateFunc: func(_, o any) { s.ending(o) },
		DeleteFunc: s.deleted,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

// Lives returns the lives of a pod that were seen on nodes: those that have ended, in the
// order of their ends, and the one that the cache shows.
func (s *Sightings) Lives(ctx context.Context, r client.Reader, pod client.ObjectKey) ([]Life, error) {
	var now corev1.Pod
	if err := r.Get(ctx, pod, &now, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get pod %s: %w", pod, err)
	}
	var lives []Life
	for _, ended := range s.ended(pod) {
		if ended.UID != now.UID {
			lives = append(lives, ended.Life)
		}
	}
	if now.Spec.NodeName != "" {
		lives = append(lives, lifeOf(&now))
	}
	return lives, nil
}

func (s *Sightings) ended(pod client.ObjectKey) []sighting {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen[pod])
}

func lifeOf(pod *corev1.Pod) Life {
	return Life{UID: pod.UID, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time}
}

// ending remembers a pod whose deletion has begun.
func (s *Sightings) ending(o any) {
	if pod, ok := o.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
		s.remember(pod)
	}
}

// deleted remembers a pod that is gone, in its last known state.
func (s *Sightings) deleted(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok {
		s.remember(pod)
	}
}

func (s *Sightings) remember(pod *corev1.Pod) {
	retain := s.Retain(pod)
	if retain <= 0 || pod.Spec.NodeName == "" {
		return
	}
	now := s.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	if s.seen == nil {
		s.seen = map[client.ObjectKey][]sighting{}
	}
	key := client.ObjectKeyFromObject(pod)
	others := slices.DeleteFunc(s.seen[key], func(known sighting) bool { return known.UID == pod.UID })
	s.seen[key] = append(others, sighting{lifeOf(pod), now.Add(retain + sightingGrace)})
}

// sweep forgets pods whose addresses are no longer reserved.
func (s *Sightings) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepInterval {
		return
	}
	s.swept = now
	for key, all := range s.seen {
		s.seen[key] = slices.DeleteFunc(all, func(known sighting) bool { return !now.Before(known.until) })
		if len(s.seen[key]) == 0 {
			delete(s.seen, key)
		}
	}
}
