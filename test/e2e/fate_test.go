package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// While its node cannot take it, a pod runs elsewhere at once; when the node is well
// again, the pod stays where it is by then.
func TestNodeFate(t *testing.T) {
	cases := map[string]struct {
		strike func(t *testing.T, node string)
		heal   func(t *testing.T, node string)
		stays  bool // a pod that runs there goes on running
	}{
		"cordoned": {
			strike: func(t *testing.T, node string) { kubectl(t, "cordon", node) },
			heal:   func(t *testing.T, node string) { kubectl(t, "uncordon", node) },
			stays:  true,
		},
		"tainted": {
			strike: func(t *testing.T, node string) { kubectl(t, "taint", "node", node, "kept=away:NoSchedule") },
			heal:   func(t *testing.T, node string) { kubectl(t, "taint", "node", node, "kept-") },
			stays:  true,
		},
		"silent": { // Kubernetes holds it for Ready still
			strike: func(t *testing.T, node string) {
				powerOff(t, node)
				await(t, time.Minute, "the node's lease to be overdue", func(ctx context.Context) (bool, string) {
					lease, err := theBed.Client.CoordinationV1().Leases("kube-node-lease").Get(ctx, node, metav1.GetOptions{})
					if err != nil {
						return false, err.Error()
					}
					return time.Since(lease.Spec.RenewTime.Time) > 16*time.Second, lease.Spec.RenewTime.String()
				})
				kubectl(t, "delete", "pod", "fate-0", "--force", "--grace-period=0")
			},
			heal: powerOn,
		},
		"not ready": {
			strike: func(t *testing.T, node string) {
				powerOff(t, node)
				kubectl(t, "wait", "node/"+node, "--for=condition=Ready=Unknown", "--timeout=2m")
				kubectl(t, "delete", "pod", "fate-0", "--force", "--grace-period=0")
			},
			heal: powerOn,
		},
		"out of service": {
			strike: func(t *testing.T, node string) {
				powerOff(t, node)
				kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
			},
			heal: func(t *testing.T, node string) {
				powerOn(t, node)
				kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service-")
			},
		},
		"deleted": {
			strike: func(t *testing.T, node string) {
				powerOff(t, node)
				kubectl(t, "delete", "node", node)
			},
			heal: func(t *testing.T, node string) {
				powerOn(t, node)
				ctx := context.WithoutCancel(t.Context())
				if err := errors.Join(theBed.Cluster.WaitReady(ctx, time.Minute), theBed.AwaitLimpet(ctx)); err != nil {
					t.Fatal(err)
				}
				// It has other pod CIDRs now. What started before the agent came to know of them
				// has an address that nobody has a route to.
				kubectl(t, "delete", "pod", "-l", "app=probe", "--field-selector", "spec.nodeName="+node)
				kubectl(t, "rollout", "status", "daemonset/probe", "--timeout=60s")
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			apply(t, set("fate", 1, retain, "10"))
			home := pods(t, "fate", 1)["fate-0"]
			heal := sync.OnceFunc(func() { tc.heal(t, home.Spec.NodeName) })
			t.Cleanup(heal)
			tc.strike(t, home.Spec.NodeName)
			if tc.stays {
				kubectl(t, "delete", "pod", "fate-0")
			}
			await(t, 3*time.Minute, "the pod to start on another node", func(ctx context.Context) (bool, string) {
				p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, "fate-0", metav1.GetOptions{})
				if err != nil {
					return false, err.Error()
				}
				return p.UID != home.UID && p.DeletionTimestamp == nil && p.Spec.NodeName != "" && p.Spec.NodeName != home.Spec.NodeName,
					fmt.Sprintf("%s on %q, deletion %v", p.Status.Phase, p.Spec.NodeName, p.DeletionTimestamp)
			})
			away := pods(t, "fate", 1)
			heal()
			if err := errors.Join(theBed.Cluster.WaitReady(t.Context(), time.Minute), theBed.AwaitLimpet(t.Context())); err != nil {
				t.Fatal(err)
			}
			kubectl(t, "delete", "pod", "fate-0")
			sameHomes(t, away, pods(t, "fate", 1))
		})
	}
}

func powerOff(t *testing.T, node string) {
	t.Helper()
	if err := theBed.Cluster.PowerOff(node); err != nil {
		t.Fatal(err)
	}
}

func powerOn(t *testing.T, node string) {
	t.Helper()
	if err := theBed.Cluster.PowerOn(node); err != nil {
		t.Error(err)
	}
}
