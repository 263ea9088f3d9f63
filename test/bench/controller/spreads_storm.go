package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// census follows the pods of a namespace in the order of the API server.
type census struct {
	mu      sync.Mutex
	subsets map[types.UID]string
	most    map[string]int // pods that a subset ever had
	without int            // pods that had no subset
}

func (c *census) follow(events <-chan watch.Event) {
	for e := range events {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		c.mu.Lock()
		before, known := c.subsets[pod.UID]
		if e.Type == watch.Deleted || !workload.Alive(pod) {
			delete(c.subsets, pod.UID)
		} else if c.subsets[pod.UID] = subsetOf(pod); !known || before != subsetOf(pod) {
			count := 0
			for _, subset := range c.subsets {
				if subset == subsetOf(pod) {
					count++
				}
			}
			if c.most[subsetOf(pod)] = max(c.most[subsetOf(pod)], count); subsetOf(pod) == "" {
				c.without++
			}
		}
		c.mu.Unlock()
	}
}

// storm creates and deletes pods through two replicas, which the API server asks in turns.
func (g *spreading) storm(ctx context.Context, r *spreadReport) error {
	g.first = g.controlled
	if err := g.startController(ctx); err != nil {
		return fmt.Errorf("start a second replica: %w", err)
	}
	g.relay.also = fmt.Sprintf("https://localhost:%d", g.controlled.WebhookPort)
	crowd, err := g.gather(ctx, "storm", g.size.wanted, true)
	if err != nil {
		return err
	}
	all, end, err := g.countAll(ctx, crowd.set.Namespace)
	if err != nil {
		return err
	}
	g.relay.take()
	begin := time.Now()
	var left, again atomic.Int64
	left.Store(int64(g.size.storm))
	err = g.parallel(ctx, g.size.clients, g.size.clients, func(ctx context.Context, _ int) error {
		return crowd.churn(ctx, &left, &again, g.size.wanted/g.size.clients)
	})
	r.stormRate = float64(g.size.storm) / time.Since(begin).Seconds()
	r.stormed, r.again = g.relay.take(), int(again.Load())
	r.failed, r.causes = g.large.failed, crowd.why
	end()
	r.most, r.unplaced = all.most, all.without
	return err
}

// countAll counts the pods of a namespace until end is called.
func (g *spreading) countAll(ctx context.Context, ns string) (all *census, end func(), err error) {
	c, err := client.NewWithWatch(g.Config, client.Options{Scheme: g.Client.Scheme()})
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(ns)); err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, pods.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns), &client.ListOptions{Raw: &options})
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch pods: %w", err)
	}
	all = &census{subsets: map[types.UID]string{}, most: map[string]int{}}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		all.follow(w.ResultChan())
	}()
	return all, func() {
		time.Sleep(time.Second) // for the last events
		w.Stop()
		<-followed
	}, nil
}

// churn creates some pods, and replaces the oldest of them while creations are left.
func (c *crowd) churn(ctx context.Context, left, again *atomic.Int64, size int) error {
	var own []*corev1.Pod
	for left.Add(-1) >= 0 {
		if len(own) == size {
			if err := c.client.Delete(ctx, own[0], client.GracePeriodSeconds(0)); err != nil {
				return fmt.Errorf("delete pod: %w", err)
			}
			own = own[1:]
		}
		pod, tries, err := c.create(ctx)
		if err != nil {
			return err
		}
		again.Add(int64(tries))
		own = append(own, pod)
	}
	return nil
}
