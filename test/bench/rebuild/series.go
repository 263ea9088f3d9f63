package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// variant is one of the two setups that are compared.
type variant struct {
	title, namespace string
	// statefulSet and template are the annotations of the StatefulSet and its pods.
	statefulSet, template string
	hostLocal             bool
}

var (
	limpet = variant{
		title: "with Limpet", namespace: "default",
		statefulSet: `{"kruise.io/auto-generate-persistent-pod-state":"true","kruise.io/preferred-persistent-topology":"kubernetes.io/hostname"}`,
		template:    `{"io.kubernetes.cri/reserved-ip-duration":"10"}`,
	}
	// hostLocal uses a namespace that Limpet's webhooks ignore.
	hostLocal = variant{title: "without, on host-local", namespace: "kube-system", statefulSet: "{}", template: "{}", hostLocal: true}
)

// replicas are one pod for each node.
const replicas = 3

// series holds the rebuilds of one variant: after an ordinary deletion, and after one by force.
type series struct {
	bed              *bed.Bed
	variant          variant
	ordinary, forced rebuilds
}

// rebuilds holds what was measured of rebuilds of one kind.
type rebuilds struct {
	took    []time.Duration // from the deletion until the rebuilt pod is Ready
	same    int             // number of rebuilds with the same node and addresses
	retried int             // number of rebuilds whose first sandbox failed
}

// turn rebuilds each pod of a new StatefulSet the given numbers of times, one pod at a time.
func (s *series) turn(ctx context.Context, ordinary, forced int) (err error) {
	if s.variant.hostLocal {
		if err := useHostLocal(ctx, s.bed); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, useLimpet(context.WithoutCancel(ctx), s.bed)) }()
	}
	manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"bench","annotations":%s},"spec":{"replicas":%d,
	  "serviceName":"bench","selector":{"matchLabels":{"app":"bench"}},"template":{"metadata":{"labels":{"app":"bench"},"annotations":%s},"spec":{
	  "terminationGracePeriodSeconds":5,"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname",
	  "whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"bench"}}}],
	  "containers":[{"name":"echo","image":"cilium/echoserver:latest","imagePullPolicy":"IfNotPresent"}]}}}}`,
		s.variant.statefulSet, replicas, s.variant.template)
	if _, err := s.bed.KubectlIn(ctx, manifest, "apply", "-n", s.variant.namespace, "-f", "-"); err != nil {
		return err
	}
	defer func() {
		_, gone := s.bed.KubectlIn(context.WithoutCancel(ctx), manifest, "delete", "-n", s.variant.namespace, "--cascade=foreground", "-f", "-")
		err = errors.Join(err, gone)
	}()
	for i := range ordinary * replicas {
		if err := s.rebuild(ctx, fmt.Sprintf("bench-%d", i%replicas), &s.ordinary, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	for i := range forced * replicas {
		byForce := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := s.rebuild(ctx, fmt.Sprintf("bench-%d", i%replicas), &s.forced, byForce); err != nil {
			return err
		}
	}
	return nil
}

func (s *series) rebuild(ctx context.Context, name string, into *rebuilds, how metav1.DeleteOptions) error {
	before, err := s.ready(ctx, name, "")
	if err != nil {
		return err
	}
	if !s.variant.hostLocal { // only a recorded pod is pinned when it is rebuilt
		if err := s.bed.AwaitRecorded(ctx, s.variant.namespace, "bench", name, before.Spec.NodeName); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := s.bed.Client.CoreV1().Pods(s.variant.namespace).Delete(ctx, name, how); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	after, err := s.ready(ctx, name, before.UID)
	if err != nil {
		return err
	}
	into.took = append(into.took, time.Since(begin))
	if after.Spec.NodeName == before.Spec.NodeName && fmt.Sprint(after.Status.PodIPs) == fmt.Sprint(before.Status.PodIPs) {
		into.same++
	}
	failed, err := s.failedSandboxes(ctx, after.UID)
	if failed {
		into.retried++
	}
	return err
}
