package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

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
