package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// hands is how many requests this program has under way where it is in a hurry.
const hands = 16

// batch is pods that become Ready, and since when they are.
type batch struct {
	mu    sync.Mutex
	pods  []*corev1.Pod
	ready map[types.UID]time.Time
}

// bound makes pods first to first+n-1 on their nodes, not Ready.
func (b *bench) bound(ctx context.Context, first, n int) (*batch, error) {
	made := &batch{pods: make([]*corev1.Pod, n), ready: map[types.UID]time.Time{}}
	return made, b.parallel(ctx, hands, n, func(ctx context.Context, i int) error {
		at := b.pod(first + i)
		pod := at.object()
		pod.Spec.NodeName = at.node
		made.pods[i] = pod
		if err := poll(ctx, func(ctx context.Context) error { return b.Client.Create(ctx, pod) }); err != nil { // as the controller of StatefulSets
			return fmt.Errorf("make pod: %w", err)
		}
		pod.Status.PodIPs, pod.Status.PodIP = []corev1.PodIP{{IP: at.ip}}, at.ip
		return nil
	})
}

// becomeReady writes a pod's status. The clock of its record starts with the answer.
func (b *bench) becomeReady(ctx context.Context, pod *corev1.Pod) (time.Time, error) {
	pod.Status = testenv.Pod{Pod: pod}.Ready().Status
	if err := b.Client.Status().Update(ctx, pod); err != nil {
		return time.Time{}, fmt.Errorf("make pod Ready: %w", err)
	}
	return time.Now(), nil
}

// become makes the i-th of a batch Ready.
func (b *bench) become(batch *batch) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		at, err := b.becomeReady(ctx, batch.pods[i])
		batch.mu.Lock()
		defer batch.mu.Unlock()
		batch.ready[batch.pods[i].UID] = at
		return err
	}
}

// fill makes all but the pods of the next two steps, as fast as it can.
func (b *bench) fill(ctx context.Context, r *report) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	var err error
	if r.idle, _, err = b.controlled.Memory(); err != nil {
		return err
	}
	n := b.size.fill()
	pods, err := b.bound(ctx, 0, n)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := b.parallel(ctx, hands, n, b.become(pods)); err != nil {
		return err
	}
	if _, err = b.records.since(ctx, pods.ready); err != nil {
		return err
	}
	r.filled, r.fill = n, time.Since(begin)
	_, err = b.Audit.Next()
	return err
}

// trickle makes pods Ready one after the other.
func (b *bench) trickle(ctx context.Context, r *report) error {
	pods, err := b.bound(ctx, b.size.fill(), b.size.trickle())
	if err != nil {
		return err
	}
	if _, err = b.Audit.Next(); err != nil {
		return err
	}
	if _, err := b.steadily(ctx, 20, b.size.trickle(), b.become(pods)); err != nil {
		return err
	}
	if r.recorded, err = b.records.since(ctx, pods.ready); err != nil {
		return err
	}
	r.recordRequests, err = b.Audit.Next()
	return err
}

// burst makes pods of as many StatefulSets as there are Ready all at once, as after the
// loss of a switch.
func (b *bench) burst(ctx context.Context, r *report) (err error) {
	r.burst, err = b.allAtOnce(ctx, b.size.spread()-b.size.burst(), b.size.burst())
	return err
}

// burstOfSets makes all pods of a few StatefulSets Ready at once, as after a rollout.
func (b *bench) burstOfSets(ctx context.Context, r *report) (err error) {
	if _, err = b.Audit.Next(); err != nil {
		return err
	}
	if r.burstOfSets, err = b.allAtOnce(ctx, b.size.spread(), b.size.wholeSets()*b.size.replicas); err != nil {
		return err
	}
	if r.burstRequests, err = b.Audit.Next(); err != nil {
		return err
	}
	r.full, _, err = b.controlled.Memory()
	return err
}

func (b *bench) allAtOnce(ctx context.Context, first, n int) (measure.Sample, error) {
	pods, err := b.bound(ctx, first, n)
	if err != nil {
		return nil, err
	}
	if err := b.parallel(ctx, n, n, b.become(pods)); err != nil {
		return nil, err
	}
	return b.records.since(ctx, pods.ready)
}

// restart starts the controller again, beside all the objects.
func (b *bench) restart(ctx context.Context, r *report) error {
	if err := b.controlled.Stop(); err != nil {
		return err
	}
	if _, err := b.Audit.Next(); err != nil {
		return err
	}
	if err := b.startController(ctx); err != nil {
		return err
	}
	var err error
	r.start = b.controlled.Ready
	if r.startRequests, err = b.Audit.Next(); err != nil {
		return err
	}
	return b.pointWebhooks(ctx, b.controlled.WebhookPort)
}
