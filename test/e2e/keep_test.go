package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// plain is the manifest of a StatefulSet without any annotation.
func plain(name string, replicas int) string {
	all := set(name, replicas)
	from, to := strings.Index(all, "  annotations:\n"), strings.Index(all, "spec:\n")
	return all[:from] + all[to:]
}

// TestOneAnnotationKeepsNodeAndAddresses writes one annotation onto a StatefulSet or onto its namespace, and no more. Pods
// that run already are kept from then on, too.
func TestOneAnnotationKeepsNodeAndAddresses(t *testing.T) {
	for _, tc := range []struct{ name, annotated, object string }{
		{"one-word", "on the StatefulSet", "statefulset/one-word"},
		{"owned", "on the namespace", "namespace/default"},
	} {
		t.Run(tc.annotated, func(t *testing.T) {
			apply(t, plain(tc.name, 3))
			pods(t, tc.name, 3)
			t.Cleanup(func() { kubectl(t, "annotate", "--overwrite", tc.object, "limpet.dev/keep-") })
			kubectl(t, "annotate", tc.object, "limpet.dev/keep=10m")
			awaitAsked(t, tc.name, 3)
			before := pods(t, tc.name, 3)
			kubectl(t, "delete", "pod", "-l", "app="+tc.name)
			after := pods(t, tc.name, 3)
			kept(t, before, after)
			kubectl(t, "rollout", "restart", "statefulset", tc.name)
			kubectl(t, "rollout", "status", "statefulset", tc.name)
			kept(t, after, pods(t, tc.name, 3))
		})
	}
}

// awaitAsked waits until the records exist, and the agents know what the running pods ask.
func awaitAsked(t *testing.T, name string, want int) {
	t.Helper()
	await(t, time.Minute, "the records and the requests of the pods of "+name, func(ctx context.Context) (bool, string) {
		recorded, err := theBed.Recorded(ctx, "default", name)
		if err != nil || len(recorded) != want {
			return false, fmt.Sprint(recorded, err)
		}
		asked, err := theBed.Kubectl(ctx, "get", "ipreservations", "-o", `jsonpath={range .items[?(@.status.retainMinutes==10)]}{.status.pod} {end}`)
		return strings.Count(asked, name+"-") == want, fmt.Sprint(asked, err)
	})
}
