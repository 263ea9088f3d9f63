package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// readyTimeout bounds how long a rebuilt pod may take to become Ready.
const readyTimeout = time.Minute

var (
	errNotReady  = errors.New("not Ready in time")
	errOtherIPAM = errors.New("has its addresses from the other IPAM plugin")
)

// ready waits until a pod of this name, with another UID than former, is Ready.
func (s *series) ready(ctx context.Context, name string, former types.UID) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for ctx.Err() == nil {
		w, err := s.bed.Client.CoreV1().Pods(s.variant.namespace).Watch(ctx, metav1.ListOptions{
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
			if fromHostLocal(s.bed, pod) != s.variant.hostLocal {
				return nil, fmt.Errorf("pod %s: %w", name, errOtherIPAM)
			}
			return pod, nil
		}
	}
	return nil, fmt.Errorf("pod %s: %w", name, errNotReady)
}

// failedSandboxes reports whether the kubelet failed to create a sandbox of a pod.
func (s *series) failedSandboxes(ctx context.Context, pod types.UID) (bool, error) {
	events, err := s.bed.Client.CoreV1().Events(s.variant.namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"reason": "FailedCreatePodSandBox", "involvedObject.uid": string(pod),
	}.String()})
	if err != nil {
		return false, fmt.Errorf("list events of pod %s: %w", pod, err)
	}
	return len(events.Items) > 0, nil
}

// agentMemory fills one node with pods. It returns the number of pods, and the peak memory of
// the node's agent in bytes.
func agentMemory(ctx context.Context, b *bed.Bed) (pods int, bytes int64, err error) {
	const node, replicas = "n1", 90 // a kubelet runs 110 pods at most
	manifest := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"fill","namespace":"default"},"spec":{"replicas":%d,
	  "serviceName":"fill","podManagementPolicy":"Parallel","selector":{"matchLabels":{"app":"fill"}},"template":{"metadata":{"labels":{"app":"fill"},
	  "annotations":{"io.kubernetes.cri/reserved-ip-duration":"10"}},"spec":{"terminationGracePeriodSeconds":1,
	  "nodeSelector":{"kubernetes.io/hostname":%q},
	  "containers":[{"name":"pause","image":"limpet.test/pause:1","imagePullPolicy":"IfNotPresent"}]}}}}`, replicas, node)
	if _, err := b.KubectlIn(ctx, manifest, "apply", "-f", "-"); err != nil {
		return 0, 0, err
	}
	if _, err := b.Kubectl(ctx, "rollout", "status", "statefulset/fill", "--timeout=5m"); err != nil {
		return 0, 0, err
	}
	out, err := b.Cluster.Exec(ctx, node, "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = limpet-agent ] && grep VmHWM $p/status; done; true`)
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("read memory of the agent: got %q", out)
	}
	kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
	return replicas, kilobytes * 1024, err
}
