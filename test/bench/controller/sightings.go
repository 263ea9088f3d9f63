package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var errNotSeen = errors.New("not seen")

// sightings knows when something was first seen of each life of a pod.
type sightings struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

// follow hands every object of a kind to take as it changes, with the lock held. A cache
// takes up a watch again that the API server has ended.
func (s *sightings) follow(ctx context.Context, b *bench, kind client.Object, options cache.ByObject, take func(o any, now time.Time)) error {
	s.at = map[types.UID]time.Time{}
	c, err := cache.New(b.Config, cache.Options{Scheme: b.Client.Scheme(), ByObject: map[client.Object]cache.ByObject{kind: options}})
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	see := func(o any) {
		now := time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		take(o, now)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }})
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	go func() { _ = c.Start(ctx) }() // until the end
	if !c.WaitForCacheSync(ctx) {
		return fmt.Errorf("watch %T: %w", kind, ctx.Err())
	}
	return nil
}

func (s *sightings) see(uid types.UID, now time.Time) {
	if _, known := s.at[uid]; !known {
		s.at[uid] = now
	}
}

// since waits until all lives were seen, and returns how long after the moment given.
func (s *sightings) since(ctx context.Context, from map[types.UID]time.Time) ([]time.Duration, error) {
	var took []time.Duration
	err := poll(ctx, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		took = took[:0]
		for uid, at := range from {
			if seen, ok := s.at[uid]; ok {
				took = append(took, max(0, seen.Sub(at)))
			}
		}
		if len(took) < len(from) {
			return fmt.Errorf("%d of %d pods: %w", len(from)-len(took), len(from), errNotSeen)
		}
		return nil
	})
	return took, err
}

// records are the sightings of pods in PersistentPodStates.
type records struct {
	sightings
	rebuilds map[client.ObjectKey]appsv1beta1.Rebuilds
}

func followRecords(ctx context.Context, b *bench) (*records, error) {
	r := &records{rebuilds: map[client.ObjectKey]appsv1beta1.Rebuilds{}}
	return r, r.follow(ctx, b, &appsv1beta1.PersistentPodState{}, cache.ByObject{}, func(o any, now time.Time) {
		state, ok := o.(*appsv1beta1.PersistentPodState)
		if !ok {
			return
		}
		for _, pod := range state.Status.PodStates {
			r.see(pod.UID, now)
		}
		if state.Status.Rebuilds != nil {
			r.rebuilds[client.ObjectKeyFromObject(state)] = *state.Status.Rebuilds
		}
	})
}

// outcomes sums up what the statuses say about rebuilds.
func (r *records) outcomes() (sum appsv1beta1.Rebuilds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.rebuilds {
		sum.Kept, sum.Moved, sum.Lost = sum.Kept+s.Kept, sum.Moved+s.Moved, sum.Lost+s.Lost
	}
	return sum
}

// nominations are the sightings of pods that are behind no gate, and on no node yet.
type nominations struct {
	sightings
	nodes map[types.UID]string
}

func followNominations(ctx context.Context, b *bench) (*nominations, error) {
	n := &nominations{nodes: map[types.UID]string{}}
	unbound := cache.ByObject{Field: fields.OneTermEqualSelector("spec.nodeName", "")}
	return n, n.follow(ctx, b, &corev1.Pod{}, unbound, func(o any, now time.Time) {
		if pod, ok := o.(*corev1.Pod); ok && len(pod.Spec.SchedulingGates) == 0 {
			n.see(pod.UID, now)
			n.nodes[pod.UID] = pod.Status.NominatedNodeName
		}
	})
}

// node waits until the pod may be scheduled, and returns the node nominated for it.
func (n *nominations) node(ctx context.Context, uid types.UID) (string, error) {
	if _, err := n.since(ctx, map[types.UID]time.Time{uid: {}}); err != nil {
		return "", fmt.Errorf("wait for the gate: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[uid], nil
}
