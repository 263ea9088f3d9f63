package cluster

import (
	"context"
	"fmt"
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

// sighting is one pod that was bound to a node.
type sighting struct {
	uid   types.UID
	node  string
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

// Ran tells whether a pod of a name ran on a node: a pod of the cache, or a deleted one. An
// empty UID stands for any pod of the name.
func (s *Sightings) Ran(ctx context.Context, r client.Reader, pod client.ObjectKey, uid types.UID, node string) (bool, error) {
	var now corev1.Pod
	switch err := r.Get(ctx, pod, &now, client.UnsafeDisableDeepCopy); {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("get pod %s: %w", pod, err)
	case err == nil && now.Spec.NodeName == node && (uid == "" || now.UID == uid):
		return true, nil
	case s == nil:
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.seen[pod] {
		if known.node == node && (uid == "" || known.uid == uid) {
			return true, nil
		}
	}
	return false, nil
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
	kept := s.seen[key][:0]
	for _, known := range s.seen[key] {
		if known.uid != pod.UID {
			kept = append(kept, known)
		}
	}
	s.seen[key] = append(kept, sighting{pod.UID, pod.Spec.NodeName, now.Add(retain + sightingGrace)})
}

// sweep forgets pods whose addresses are no longer reserved.
func (s *Sightings) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepInterval {
		return
	}
	s.swept = now
	for key, all := range s.seen {
		kept := all[:0]
		for _, known := range all {
			if now.Before(known.until) {
				kept = append(kept, known)
			}
		}
		if s.seen[key] = kept; len(kept) == 0 {
			delete(s.seen, key)
		}
	}
}
