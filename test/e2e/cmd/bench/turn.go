package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// side is one of the two that are compared.
type side struct {
	title, namespace string
	// statefulSet and template are the annotations of the StatefulSet and its pods.
	statefulSet, template string
	plain                 bool
}

var (
	kept = side{
		title: "with Limpet", namespace: "default",
		statefulSet: `{"kruise.io/auto-generate-persistent-pod-state":"true","kruise.io/preferred-persistent-topology":"kubernetes.io/hostname"}`,
		template:    `{"io.kubernetes.cri/reserved-ip-duration":"10"}`,
	}
	// plain is in the namespace that Limpet's webhooks leave out.
	plain = side{title: "without, on host-local", namespace: "kube-system", statefulSet: "{}", template: "{}", plain: true}
)

// replicas is one pod for each node.
const replicas = 3

// turn is a side and what was measured of it.
type turn struct {
	bed  *bed.Bed
	side side
	took []time.Duration // from the deletion until the successor is Ready
	same int             // of these, with node and addresses of before
}

// take rebuilds each pod of a new StatefulSet, one at a time, so many times.
func (t *turn) take(ctx context.Context, visits int) (err error) {
	if t.side.plain {
		if err := swap(ctx, t.bed); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, swapBack(context.WithoutCancel(ctx), t.bed)) }()
	}
	manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"bench","annotations":%s},"spec":{"replicas":%d,
	  "serviceName":"bench","selector":{"matchLabels":{"app":"bench"}},"template":{"metadata":{"labels":{"app":"bench"},"annotations":%s},"spec":{
	  "terminationGracePeriodSeconds":5,"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname",
	  "whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"bench"}}}],
	  "containers":[{"name":"echo","image":"cilium/echoserver:latest","imagePullPolicy":"IfNotPresent"}]}}}}`,
		t.side.statefulSet, replicas, t.side.template)
	if _, err := t.bed.KubectlIn(ctx, manifest, "apply", "-n", t.side.namespace, "-f", "-"); err != nil {
		return err
	}
	defer func() {
		_, gone := t.bed.KubectlIn(context.WithoutCancel(ctx), manifest, "delete", "-n", t.side.namespace, "--cascade=foreground", "-f", "-")
		err = errors.Join(err, gone)
	}()
	for i := range visits * replicas {
		if err := t.rebuild(ctx, fmt.Sprintf("bench-%d", i%replicas)); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) rebuild(ctx context.Context, name string) error {
	before, err := t.ready(ctx, name, "")
	if err != nil {
		return err
	}
	if !t.side.plain { // the next life is only pinned once this one is recorded
		if err := t.bed.AwaitRecorded(ctx, t.side.namespace, "bench", name, before.Spec.NodeName); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := t.bed.Client.CoreV1().Pods(t.side.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	after, err := t.ready(ctx, name, before.UID)
	if err != nil {
		return err
	}
	t.took = append(t.took, time.Since(begin))
	if after.Spec.NodeName == before.Spec.NodeName && fmt.Sprint(after.Status.PodIPs) == fmt.Sprint(before.Status.PodIPs) {
		t.same++
	}
	return nil
}
