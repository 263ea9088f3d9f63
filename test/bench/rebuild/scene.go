package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scene is a way to rebuild the pods of a StatefulSet.
type scene struct {
	name, title string
	replicas    int
	turns       int           // of each side
	interval    time.Duration // of the requests to each target
	rebuild     func(context.Context, *turn) error
}

var scenes = []scene{
	{"one", "one pod at a time", 3, 3, 50 * time.Millisecond, oneByOne(8, metav1.DeleteOptions{})},
	{"forced", "one pod at a time, by force", 3, 2, 50 * time.Millisecond, oneByOne(4, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})},
	{"all", "60 pods at once", 60, 1, 500 * time.Millisecond, allAtOnce},
	{"rollout", "rolling update of 18 pods", 18, 1, 200 * time.Millisecond, rollingUpdate},
}

// sceneMemory fills a node with pods.
const sceneMemory = "memory"

func sceneNames() []string {
	var all []string
	for _, s := range scenes {
		all = append(all, s.name)
	}
	return append(all, sceneMemory)
}

// oneByOne deletes each pod a number of times. A pod is deleted when the one before is Ready again, after a random time:
// without, each deletion would be at the same age of what CoreDNS keeps.
func oneByOne(times int, how metav1.DeleteOptions) func(context.Context, *turn) error {
	return func(ctx context.Context, t *turn) error {
		for i := range times * len(t.pods) {
			pod := t.pods[i%len(t.pods)]
			select {
			case <-ctx.Done():
			case <-time.After(rand.N(2 * time.Second)):
			}
			if err := t.prepare(ctx, pod); err != nil {
				return err
			}
			if err := t.bed.Client.CoreV1().Pods(t.side.namespace).Delete(ctx, pod, how); err != nil {
				return fmt.Errorf("delete pod %s: %w", pod, err)
			}
			if err := t.awaitRebuilt(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func allAtOnce(ctx context.Context, t *turn) error {
	if err := t.prepare(ctx, t.pods...); err != nil {
		return err
	}
	err := t.bed.Client.CoreV1().Pods(t.side.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=" + set})
	if err != nil {
		return fmt.Errorf("delete all pods: %w", err)
	}
	return t.awaitRebuilt(ctx)
}

func rollingUpdate(ctx context.Context, t *turn) error {
	if err := t.prepare(ctx, t.pods...); err != nil {
		return err
	}
	if _, err := t.bed.Kubectl(ctx, "rollout", "restart", "-n", t.side.namespace, "statefulset/"+set); err != nil {
		return err
	}
	return t.awaitRebuilt(ctx)
}
