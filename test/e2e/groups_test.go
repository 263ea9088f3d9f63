package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const ring = `apiVersion: limpet.dev/v1alpha1
kind: DistributedPodDisruptionBudget
metadata: {name: db, namespace: ringed}
spec:
  selector: {matchLabels: {app: db}}
  maxUnavailable: 1
  groups:
    sliding: {orderBy: ordinal, size: 3, wrap: true}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: ringed}
spec:
  replicas: 9
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}]
`

// TestADrainKeepsARing drains a node of a ring of nine. Of three neighbours two are Ready at any time.
func TestADrainKeepsARing(t *testing.T) {
	namespace(t, "ringed")
	apply(t, ring)
	kubectl(t, "rollout", "status", "-n", "ringed", "statefulset/db", "--timeout=120s")
	await(t, time.Minute, "the numbers of the budget", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "dpdb", "-n", "ringed", "db", "--no-headers")
		return err == nil && strings.HasPrefix(strings.Join(strings.Fields(out), " "), "db 3 9 9 9 0 True"), fmt.Sprint(out, err)
	})
	away := func(ctx context.Context) (node string, ordinals []int, _ error) {
		list, err := theBed.Client.CoreV1().Pods("ringed").List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
		if err != nil {
			return "", nil, err
		}
		serving, on := map[string]bool{}, map[string]int{}
		for i := range list.Items {
			p := &list.Items[i]
			serving[p.Name] = bed.Ready(p) && p.DeletionTimestamp == nil
			if on[p.Spec.NodeName]++; on[p.Spec.NodeName] > on[node] {
				node = p.Spec.NodeName
			}
		}
		for i := range 9 {
			if !serving[fmt.Sprint("db-", i)] {
				ordinals = append(ordinals, i)
			}
		}
		return node, ordinals, nil
	}
	node, _, err := away(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watched, stop := context.WithCancel(t.Context())
	seen := make(chan int)
	go func() {
		most := 0
		for ; watched.Err() == nil; time.Sleep(50 * time.Millisecond) {
			_, ordinals, err := away(watched)
			if err != nil {
				continue
			}
			most = max(most, len(ordinals))
			for _, a := range ordinals {
				for _, b := range ordinals {
					if apart := (b - a + 9) % 9; apart == 1 || apart == 2 {
						t.Errorf("db-%d and db-%d were away together", a, b)
					}
				}
			}
		}
		seen <- most
	}()
	t.Cleanup(func() { _, _ = theBed.Kubectl(context.WithoutCancel(t.Context()), "uncordon", node) })
	start := time.Now()
	out, err := theBed.Kubectl(t.Context(), "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
	took := time.Since(start)
	stop()
	t.Logf("node %s was drained in %s; at most %d pods were away together", node, took, <-seen)
	if err != nil {
		t.Errorf("kubectl drain ended with an error: %v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "will retry after") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
