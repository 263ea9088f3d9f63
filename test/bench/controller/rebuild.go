package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/bench/measure"
)

var errNotHome = errors.New("nominated for another node")

// rebuild takes pods that run through the end of one life and the start of the next.
func (b *bench) rebuild(ctx context.Context, r *report) error {
	open, err := followNominations(ctx, b)
	if err != nil {
		return err
	}
	before := b.records.outcomes()
	if _, err := b.Audit.Next(); err != nil {
		return err
	}
	var mu sync.Mutex
	created, ready := map[types.UID]time.Time{}, map[types.UID]time.Time{}
	if _, err := b.steadily(ctx, 20, b.size.rebuilds(), func(ctx context.Context, i int) error {
		life, err := b.live(ctx, b.pod(b.size.creates()+i), open)
		mu.Lock()
		defer mu.Unlock()
		created[life.uid], ready[life.uid] = life.created, life.ready
		return err
	}); err != nil {
		return err
	}
	if r.nominated, err = open.since(ctx, created); err != nil {
		return err
	}
	if r.rebuilt, err = b.records.since(ctx, ready); err != nil {
		return err
	}
	if r.rebuildRequests, err = b.settled(ctx); err != nil {
		return err
	}
	after := b.records.outcomes()
	r.kept, r.lost = int(after.Kept-before.Kept), int(after.Moved+after.Lost-before.Moved-before.Lost)
	_, r.highest, err = b.controlled.Memory()
	return err
}

// life is when a pod was created and Ready.
type life struct {
	uid            types.UID
	created, ready time.Time
}

// live ends a pod and plays everybody who has a part in its next life.
func (b *bench) live(ctx context.Context, at podAt, open *nominations) (life, error) {
	pod := at.object()
	if err := b.remove(ctx, pod); err != nil {
		return life{}, fmt.Errorf("end pod: %w", err)
	}
	if err := b.createPinned(ctx, pod); err != nil {
		return life{}, err
	}
	l := life{uid: pod.UID, created: time.Now()}
	node, err := open.node(ctx, pod.UID)
	if err == nil && node != at.node {
		err = fmt.Errorf("pod of %s: %s: %w", at.node, node, errNotHome)
	}
	if err != nil {
		return l, err
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := b.Client.SubResource("binding").Create(ctx, pod, binding); err != nil {
		return l, fmt.Errorf("bind pod: %w", err)
	}
	pod.ResourceVersion = "" // the latest, whatever it is
	pod.Spec.NodeName = node
	pod.Status = testenv.Pod{Pod: pod}.At(at.ip).Status
	l.ready, err = b.becomeReady(ctx, pod)
	return l, err
}

// settled counts requests until the events are there too. Those of further pods of a StatefulSet are
// gathered, and come later.
func (b *bench) settled(ctx context.Context) (measure.Tally, error) {
	select {
	case <-time.After(b.size.settle):
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for events: %w", ctx.Err())
	}
	return b.Audit.Next()
}
