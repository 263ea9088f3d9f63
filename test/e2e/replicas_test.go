package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// TestOneOfTwoControllersIsLost freezes the leader, as a node does that loses its network. The
// webhooks of the other replica create the pod, and the other replica leads and brings it home.
func TestOneOfTwoControllersIsLost(t *testing.T) {
	apply(t, set("survives", 1, retain, "10"))
	before := pods(t, "survives", 1)
	replicas := controllers(t)
	former := leader(t, "")
	frozen := replicas[former]
	t.Cleanup(func() {
		signal(t, frozen.Spec.NodeName, "CONT") // it ends as another replica leads, and is started again
		restarted(t, frozen)
	})
	signal(t, frozen.Spec.NodeName, "STOP")
	kubectl(t, "delete", "pod", "survives-0", "--timeout=120s")
	kept(t, before, pods(t, "survives", 1))
	leader(t, former)
}

// TestAnOutageOfTheAPIServerRestartsNoController kills the API server for twenty seconds, which is longer than the
// leader's term. The same processes run afterwards, and the same replica leads. An API server that ends in order would
// take its address out of the Service, and kube-proxy of the leader's node may learn the new one a minute late.
func TestAnOutageOfTheAPIServerRestartsNoController(t *testing.T) {
	replicas := controllers(t)
	processes, before := running(t, replicas), leaseOf(t)
	if err := theBed.Cluster.KillComponent(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	err := bed.Await(t.Context(), time.Minute, "the end of the outage", func(context.Context) (bool, string) {
		now, err := processesOf(t, replicas) //nolint:contextcheck // it has the context of the test
		return time.Since(stopped) > 20*time.Second || err == nil && !maps.Equal(now, processes), ""
	})
	if err := errors.Join(err, theBed.Cluster.StartComponent(cluster.APIServer)); err != nil {
		t.Fatal(err)
	}
	await(t, time.Minute, "the Lease to be renewed", func(ctx context.Context) (bool, string) {
		after, err := theBed.Client.CoordinationV1().Leases(bed.System).Get(ctx, before.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if *after.Spec.HolderIdentity != *before.Spec.HolderIdentity || *after.Spec.LeaseTransitions != *before.Spec.LeaseTransitions {
			t.Fatalf("%s leads after %d changes, want %s after %d", *after.Spec.HolderIdentity, *after.Spec.LeaseTransitions,
				*before.Spec.HolderIdentity, *before.Spec.LeaseTransitions)
		}
		return after.Spec.RenewTime.After(stopped.Add(20 * time.Second)), after.Spec.RenewTime.String()
	})
	if now := running(t, replicas); !maps.Equal(now, processes) {
		t.Errorf("the processes were %v, are %v", processes, now)
	}
	seesAgain(t)
}

// seesAgain waits until a new pod is created, scheduled, started and recorded. After an outage each client of the API server
// waits up to a minute before it lists again: the scheduler would bind a pod to a node that was cordoned in this time. The
// programs of Kubernetes list at once when they start.
func seesAgain(t *testing.T) {
	t.Helper()
	for _, c := range []cluster.Component{cluster.ControllerManager, cluster.Scheduler} {
		if err := errors.Join(theBed.Cluster.StopComponent(c), theBed.Cluster.StartComponent(c)); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range theBed.Cluster.Nodes() {
		err := theBed.Cluster.StopService(t.Context(), node, "kubelet")
		if err := errors.Join(err, theBed.Cluster.StartService(t.Context(), node, "kubelet")); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, set("after-outage", 1, retain, "10"))
	pods(t, "after-outage", 1)
}

func leaseOf(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := theBed.Client.CoordinationV1().Leases(bed.System).Get(t.Context(), "limpet-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// controllers returns the replicas of the controller by name. They are on two nodes: a replica that
// shares the node of the leader, as after a first installation, is deleted here instead of waiting
// until it leaves by itself.
func controllers(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	found := map[string]corev1.Pod{}
	await(t, 2*time.Minute, "two controllers on two nodes", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods(bed.System).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=limpet-controller"})
		if err != nil {
			return false, err.Error()
		}
		clear(found)
		nodes := map[string]bool{}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && bed.Ready(&p) {
				found[p.Name], nodes[p.Spec.NodeName] = p, true
			}
		}
		if leads := leader(t, ""); len(found) == 2 && len(nodes) == 1 { //nolint:contextcheck // it has the context of the test
			for name := range found {
				if name != leads {
					kubectl(t, "-n", bed.System, "delete", "pod", name) //nolint:contextcheck // it has the context of the test
				}
			}
		}
		return len(found) == 2 && len(nodes) == 2, fmt.Sprintf("%d Ready on %d nodes", len(found), len(nodes))
	})
	return found
}

// leader waits until a replica leads other than the given one, and returns its name.
func leader(t *testing.T, other string) (name string) {
	t.Helper()
	await(t, time.Minute, "a leader other than "+other, func(ctx context.Context) (bool, string) {
		lease, err := theBed.Client.CoordinationV1().Leases(bed.System).Get(ctx, "limpet-controller", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, fmt.Sprint("no holder ", err)
		}
		name, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		return name != "" && name != other, *lease.Spec.HolderIdentity
	})
	return name
}

// ofController runs a command for the PID of each controller on a node. It starts no other process: tests run it in loops.
const ofController = `for p in /proc/[0-9]*; do { read -r name <"$p/comm"; } 2>/dev/null || continue
	case $name in limpet-cont*) %s "${p#/proc/}";; esac; done; true`

// signal sends a signal to the controller of a node.
func signal(t *testing.T, node, name string) {
	t.Helper()
	if out, err := theBed.Cluster.Exec(context.WithoutCancel(t.Context()), node, "sh", "-c", fmt.Sprintf(ofController, "kill -"+name)); err != nil {
		t.Errorf("signal controller on %s: %v: %s", node, err, out)
	}
}

// restarted waits until the container of a replica was started again and is Ready. The status of
// the pod says Ready for a moment after its process has ended, so the count of restarts decides.
func restarted(t *testing.T, before corev1.Pod) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := bed.Await(ctx, 2*time.Minute, before.Name+" to be restarted", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods(bed.System).Get(ctx, before.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return restarts(p) > restarts(&before) && bed.Ready(p), fmt.Sprintf("%d restarts, Ready %t", restarts(p), bed.Ready(p))
	})
	if err != nil {
		t.Error(err)
	}
}

func restarts(p *corev1.Pod) (n int32) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// running waits until each replica has a process, and returns their PIDs by node.
func running(t *testing.T, replicas map[string]corev1.Pod) (found map[string]string) {
	t.Helper()
	await(t, time.Minute, "a process of each controller", func(context.Context) (bool, string) {
		var err error
		found, err = processesOf(t, replicas) //nolint:contextcheck // it has the context of the test
		return err == nil, fmt.Sprint(err)
	})
	return found
}

// processesOf returns the PIDs of the controllers by node.
func processesOf(t *testing.T, replicas map[string]corev1.Pod) (map[string]string, error) {
	t.Helper()
	found := map[string]string{}
	for _, p := range replicas {
		out, err := theBed.Cluster.Exec(t.Context(), p.Spec.NodeName, "sh", "-c", fmt.Sprintf(ofController, "echo"))
		if err != nil {
			return nil, fmt.Errorf("find controller on %s: %w: %q", p.Spec.NodeName, err, out)
		}
		if found[p.Spec.NodeName] = strings.TrimSpace(string(out)); found[p.Spec.NodeName] == "" {
			return nil, fmt.Errorf("no controller runs on %s", p.Spec.NodeName)
		}
	}
	return found, nil
}
