package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
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
	for _, tc := range []struct {
		name, annotated, object string
		waits                   bool // for a controller
	}{
		{"one-word", "on the StatefulSet", "statefulset/one-word", false},
		{"owned", "on the namespace", "namespace/owned", true},
	} {
		t.Run(tc.annotated, func(t *testing.T) {
			ns := tc.name
			kubectl(t, "create", "namespace", ns)
			t.Cleanup(func() { kubectl(t, "delete", "namespace", ns) })
			if _, err := theBed.KubectlIn(t.Context(), plain(tc.name, 3), "apply", "-n", ns, "-f", "-"); err != nil {
				t.Fatal(err)
			}
			podsIn(t, ns, tc.name, 3)
			kubectl(t, "annotate", "-n", ns, tc.object, "limpet.dev/keep=10m")
			awaitAsked(t, ns, tc.name, 3)
			before := podsIn(t, ns, tc.name, 3)
			kubectl(t, "delete", "pod", "-n", ns, "-l", "app="+tc.name)
			after := podsIn(t, ns, tc.name, 3)
			kept(t, before, after)
			kubectl(t, "rollout", "restart", "-n", ns, "statefulset", tc.name)
			kubectl(t, "rollout", "status", "-n", ns, "statefulset", tc.name)
			before = podsIn(t, ns, tc.name, 3)
			kept(t, after, before)
			if tc.waits {
				withoutController(t, func() {
					kubectl(t, "delete", "pod", "-n", ns, "-l", "app="+tc.name)
					awaitEvent(t, ns, "FailedCreate", "no limpet-controller answered")
				})
				kept(t, before, podsIn(t, ns, tc.name, 3))
			}
		})
	}
}

// withoutController does something while no controller runs.
func withoutController(t *testing.T, do func()) {
	t.Helper()
	scale := func(replicas string) {
		kubectl(t, "-n", bed.System, "scale", "deployment", "limpet-controller", "--replicas="+replicas)
	}
	defer func() {
		scale("2")
		if err := theBed.AwaitLimpet(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	scale("0")
	kubectl(t, "-n", bed.System, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=limpet-controller", "--timeout=60s")
	do()
}

// awaitEvent waits for an event with a reason, and with some words in its message.
func awaitEvent(t *testing.T, namespace, reason, words string) {
	t.Helper()
	await(t, time.Minute, "an event "+reason, func(ctx context.Context) (bool, string) {
		said, err := theBed.Kubectl(ctx, "get", "events", "-n", namespace, "--field-selector=reason="+reason, "-o", "jsonpath={.items[*].message}")
		return strings.Contains(said, words), fmt.Sprint(said, err)
	})
}

// awaitAsked waits until the records exist, and the agents know what the running pods ask.
func awaitAsked(t *testing.T, namespace, name string, want int) {
	t.Helper()
	await(t, time.Minute, "the records and the requests of the pods of "+name, func(ctx context.Context) (bool, string) {
		recorded, err := theBed.Recorded(ctx, namespace, name)
		if err != nil || len(recorded) != want {
			return false, fmt.Sprint(recorded, err)
		}
		asked, err := theBed.Kubectl(ctx, "get", "ipreservations", "-n", namespace, "-o", `jsonpath={range .items[?(@.status.retainMinutes==10)]}{.status.pod} {end}`)
		return strings.Count(asked, name+"-") == want, fmt.Sprint(asked, err)
	})
}
