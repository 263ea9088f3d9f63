package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spread are preferences that draw each pod away from the other pods of its StatefulSet.
const spread = `
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: many}}}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - {weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: many}}}}
`

// TestTwoHundredRebuildsAgainstThePull rebuilds forty pods at once, five times. One node is
// empty, and all scheduler scores favor it. Each of the two hundred pods returns to its node.
func TestTwoHundredRebuildsAgainstThePull(t *testing.T) {
	long(t)
	const many, rounds = 40, 5
	empty := theBed.Cluster.Nodes()[2]
	kubectl(t, "cordon", empty)
	t.Cleanup(func() {
		if _, err := theBed.Kubectl(context.WithoutCancel(t.Context()), "uncordon", empty); err != nil {
			t.Error(err)
		}
	})
	manifest := set("many", many, retain, "10")
	apply(t, strings.Replace(manifest, "    spec:\n", "    spec:"+spread, 1))
	before := pods(t, "many", many)
	kubectl(t, "uncordon", empty)
	for range rounds {
		kubectl(t, "delete", "pod", "-l", "app=many", "--wait=false")
		allTerminating(t, before)
		after := pods(t, "many", many)
		kept(t, before, after)
		before = after
	}
}

// allTerminating waits until each pod is in deletion or rebuilt.
func allTerminating(t *testing.T, before map[string]corev1.Pod) {
	t.Helper()
	await(t, time.Minute, "all to be in deletion or replaced", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Sprint(err)
		}
		for _, p := range list.Items {
			if p.UID == before[p.Name].UID && p.DeletionTimestamp == nil {
				return false, p.Name
			}
		}
		return true, ""
	})
}
