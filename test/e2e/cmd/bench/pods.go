package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const limit = time.Minute

var (
	errNotReady = errors.New("not Ready in time")
	errWrongOne = errors.New("has its addresses from the other plugin")
)

// ready waits for a life of a pod, other than a former one, to be Ready.
func (t *turn) ready(ctx context.Context, name string, former types.UID) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		w, err := t.bed.Client.CoreV1().Pods(t.side.namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		})
		if err != nil {
			return nil, fmt.Errorf("watch pod %s: %w", name, err)
		}
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.UID == former || pod.DeletionTimestamp != nil || !bed.Ready(pod) {
				continue
			}
			w.Stop()
			if fromHostLocal(t.bed, pod) != t.side.plain {
				return nil, fmt.Errorf("pod %s: %w", name, errWrongOne)
			}
			return pod, nil
		}
	}
	return nil, fmt.Errorf("pod %s: %w", name, errNotReady)
}

// agentMemory fills one node with pods and returns how many run there, and the memory
// of its agent in bytes.
func agentMemory(ctx context.Context, b *bed.Bed) (pods int, bytes int64, err error) {
	const node, replicas = "n1", 90 // a kubelet takes 110
	manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"crowd","namespace":"default"},"spec":{"replicas":%d,
	  "serviceName":"crowd","podManagementPolicy":"Parallel","selector":{"matchLabels":{"app":"crowd"}},"template":{"metadata":{"labels":{"app":"crowd"},
	  "annotations":{"io.kubernetes.cri/reserved-ip-duration":"10"}},"spec":{"terminationGracePeriodSeconds":1,
	  "nodeSelector":{"kubernetes.io/hostname":%q},
	  "containers":[{"name":"pause","image":"limpet.test/pause:1","imagePullPolicy":"IfNotPresent"}]}}}}`, replicas, node)
	if _, err := b.KubectlIn(ctx, manifest, "apply", "-f", "-"); err != nil {
		return 0, 0, err
	}
	if _, err := b.Kubectl(ctx, "rollout", "status", "statefulset/crowd", "--timeout=5m"); err != nil {
		return 0, 0, err
	}
	out, err := b.Cluster.Exec(ctx, node, "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = limpet-agent ] && grep VmHWM $p/status; done; true`)
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("memory of the agent: %q", out) //nolint:err113 // for a person
	}
	kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
	return replicas, kilobytes * 1024, err
}
