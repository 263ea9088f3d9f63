package rebuild

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const (
	// Namespace is the namespace of the StatefulSet.
	Namespace = "default"
	// Set is the name of the StatefulSet.
	Set = "echoserver"
)

// Step is one way in which pods are rebuilt.
type Step struct {
	Name    string
	Command string // what a user would type
	// Pods are the rebuilt pods; empty: all.
	Pods []string
	// FreeToMove is the reason why the pods are free to move; "" when they must be kept.
	FreeToMove string
	// Do causes the rebuild. The pods may not be Ready yet when it returns.
	Do func(ctx context.Context, r *Runner) error
	// Undo restores the cluster after the pods were judged.
	Undo func(ctx context.Context, r *Runner) error
}

// Steps returns the ordinary ways of rebuilding pods, in the order of the demo.
func Steps() []Step {
	first, second := Set+"-0", Set+"-1"
	return []Step{
		{Name: "delete one", Command: "kubectl delete pod " + first, Pods: []string{first}, Do: func(ctx context.Context, r *Runner) error {
			return r.delete(ctx, first)
		}},
		{Name: "delete all", Command: "kubectl delete pod " + first + " " + second, Do: func(ctx context.Context, r *Runner) error {
			return r.delete(ctx, first, second)
		}},
		{Name: "rolling update", Command: "kubectl rollout restart statefulset " + Set, Do: func(ctx context.Context, r *Runner) error {
			return r.kubectl(ctx, "rollout", "restart", "statefulset", Set)
		}},
		{Name: "eviction", Command: "POST /api/v1/namespaces/default/pods/" + second + "/eviction", Pods: []string{second}, Do: func(ctx context.Context, r *Runner) error {
			return r.Bed.Client.PolicyV1().Evictions(Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: second}})
		}},
		{Name: "pause container killed", Command: "kill -9 of the pause process of " + first, Pods: []string{first}, Do: func(ctx context.Context, r *Runner) error {
			return r.Bed.Cluster.KillPause(ctx, r.before[first].Node, string(r.before[first].UID))
		}},
		{Name: "node powered off and on", Command: "limpet-cluster node off, then node on, where " + first + " runs", Pods: []string{first}, Do: func(_ context.Context, r *Runner) error {
			return r.powerOffAndOn(r.before[first].Node)
		}},
		{Name: "scale 2→0→2", Command: "kubectl scale statefulset " + Set + " --replicas=0, then 2", Do: scaleToZeroAndBack},
		{Name: "agent stopped", Command: "kubectl delete pod " + first + " while no agent runs", Pods: []string{first}, Do: withoutAgent(first), Undo: startAgent},
		{Name: "controller stopped", Command: "kubectl delete pod " + second + " while no controller runs; it waits for one", Pods: []string{second}, Do: withoutController(second), Undo: startControllers},
		{
			Name: "drain", Command: "kubectl drain of the node of " + second + ", then uncordon", Pods: []string{second}, FreeToMove: "drained node",
			Do: func(ctx context.Context, r *Runner) error {
				return r.kubectl(ctx, "drain", r.before[second].Node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
			},
			Undo: func(ctx context.Context, r *Runner) error { return r.kubectl(ctx, "uncordon", r.before[second].Node) },
		},
		{Name: "delete all after uncordon", Command: "kubectl delete pod " + first + " " + second, Do: func(ctx context.Context, r *Runner) error {
			return r.delete(ctx, first, second)
		}},
	}
}

// Reboot is a restart of a node for all pods of a Runner, which run there.
func Reboot(node string) Step {
	return Step{Name: "reboot", Command: "limpet-cluster node off, then node on, for pods that ask for nothing", Do: func(_ context.Context, r *Runner) error {
		return r.powerOffAndOn(node)
	}}
}

func (r *Runner) powerOffAndOn(node string) error {
	if err := r.Bed.Cluster.PowerOff(node); err != nil {
		return err
	}
	return r.Bed.Cluster.PowerOn(node)
}

func scaleToZeroAndBack(ctx context.Context, r *Runner) error {
	if err := r.kubectl(ctx, "scale", "statefulset", Set, "--replicas=0"); err != nil {
		return err
	}
	err := bed.Await(ctx, time.Minute, "no pod to be left", func(ctx context.Context) (bool, string) {
		left, err := r.observe(ctx)
		return err == nil && len(left) == 0, fmt.Sprint(len(left), " left ", err)
	})
	if err != nil {
		return err
	}
	return r.kubectl(ctx, "scale", "statefulset", Set, "--replicas=2")
}

func withoutAgent(pod string) func(context.Context, *Runner) error {
	return func(ctx context.Context, r *Runner) error {
		if err := r.kubectl(ctx, "-n", bed.System, "patch", "daemonset", "limpet-agent", "-p", `{"spec":{"template":{"spec":{"nodeSelector":{"no":"where"}}}}}`); err != nil {
			return err
		}
		if err := r.awaitPods(ctx, "limpet-agent", 0); err != nil {
			return err
		}
		return r.delete(ctx, pod)
	}
}

func startAgent(ctx context.Context, r *Runner) error {
	if err := r.kubectl(ctx, "-n", bed.System, "patch", "daemonset", "limpet-agent", "-p", `{"spec":{"template":{"spec":{"nodeSelector":null}}}}`); err != nil {
		return err
	}
	return r.Bed.AwaitLimpet(ctx)
}

// withoutController deletes a pod while there is no controller. The pod ends at once. The
// StatefulSet cannot create the next pod before the controller is back, because an unpinned pod
// could start on another node and lose its address.
func withoutController(pod string) func(context.Context, *Runner) error {
	return func(ctx context.Context, r *Runner) error {
		if err := r.kubectl(ctx, "-n", bed.System, "scale", "deployment", "limpet-controller", "--replicas=0"); err != nil {
			return err
		}
		if err := r.awaitPods(ctx, "limpet-controller", 0); err != nil {
			return err
		}
		if err := r.delete(ctx, pod); err != nil {
			return err
		}
		err := bed.Await(ctx, time.Minute, pod+" to be gone", func(ctx context.Context) (bool, string) {
			left, err := r.observe(ctx)
			_, there := left[pod]
			return err == nil && !there, "it is still there"
		})
		if err != nil {
			return err
		}
		return startControllers(ctx, r)
	}
}

func startControllers(ctx context.Context, r *Runner) error {
	if err := r.kubectl(ctx, "-n", bed.System, "scale", "deployment", "limpet-controller", "--replicas=2"); err != nil {
		return err
	}
	return r.Bed.AwaitLimpet(ctx)
}
