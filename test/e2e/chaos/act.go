package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// action does a fault, and returns when the fault has ended.
type action func(ctx context.Context, r *runner, f Fault, random *rand.Rand) error

var actions = map[Kind]action{
	Delete: func(ctx context.Context, r *runner, _ Fault, random *rand.Rand) error {
		return r.each(ctx, random, 3, func(p corev1.Pod) error {
			return r.bed.Client.CoreV1().Pods(Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
		})
	},
	ForceDelete: func(ctx context.Context, r *runner, _ Fault, random *rand.Rand) error {
		return r.each(ctx, random, 1, func(p corev1.Pod) error {
			return r.bed.Client.CoreV1().Pods(Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		})
	},
	Evict: func(ctx context.Context, r *runner, _ Fault, random *rand.Rand) error {
		return r.each(ctx, random, 4, func(p corev1.Pod) error {
			return r.bed.Client.PolicyV1().Evictions(Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: p.Name}})
		})
	},
	Rollout: func(ctx context.Context, r *runner, _ Fault, random *rand.Rand) error {
		workload := []string{"statefulset/db", "statefulset/pay", "statefulset/roam", "deployment/web"}[random.IntN(4)]
		_, err := r.bed.Kubectl(ctx, "rollout", "restart", "-n", Namespace, workload)
		return err
	},
	Scale: func(ctx context.Context, r *runner, f Fault, random *rand.Rand) error {
		set, full := "statefulset/db", 6
		if random.IntN(3) == 0 {
			set = "deployment/web"
		}
		return errors.Join(r.scale(ctx, set, random.IntN(full)), r.wait(ctx, f.For), r.scale(ctx, set, full))
	},
	KillAgent: func(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
		return r.deleteOwn(ctx, "limpet-agent", func(p corev1.Pod) bool { return p.Spec.NodeName == f.Node })
	},
	KillControllers: func(ctx context.Context, r *runner, _ Fault, random *rand.Rand) error {
		both, first := random.IntN(3) == 0, true
		return r.deleteOwn(ctx, "limpet-controller", func(corev1.Pod) bool {
			chosen := first || both
			first = false
			return chosen
		})
	},
	KillPlugins:    killPlugins,
	KillContainerd: kill("containerd"),
	KillKubelet:    kill("kubelet"),
	KillAPIServer: func(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
		killed := r.bed.Cluster.KillComponent(cluster.APIServer)
		r.mutex.Lock()
		r.killed = append(r.killed, time.Now())
		r.mutex.Unlock()
		return errors.Join(killed, r.wait(ctx, f.For), r.bed.Cluster.StartComponent(cluster.APIServer))
	},
	Drain:          drain,
	PowerLoss:      powerLoss,
	Partition:      partition,
	TakeForDead:    takeForDead,
	DamageState:    damageState,
	RollBackState:  rollBackState,
	FillDisk:       fillDisk,
	DamagePlugin:   damagePlugin,
	ReplacePlugins: replacePluginDirectory,
	ReplaceState:   replaceStateDirectory,
}

// startControllers starts the scheduler and the controller manager when they have ended, as a kubelet does for static
// pods. Both end by themselves: where the API server does not answer, and where a cache of theirs contradicts itself.
func (r *runner) startControllers(ctx context.Context) {
	for _, s := range r.bed.Cluster.Status() {
		k := cluster.Component(s.Name)
		if (k == cluster.Scheduler || k == cluster.ControllerManager) && s.PID == 0 && ctx.Err() == nil {
			r.progress("         %s has ended, and is started again: %v", k, r.bed.Cluster.StartComponent(k))
		}
	}
}

// each does something to some pods, chosen at random. Pods that are gone and budgets that refuse
// are no errors.
func (r *runner) each(ctx context.Context, random *rand.Rand, most int, do func(corev1.Pod) error) error {
	list, err := r.bed.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	random.Shuffle(len(list.Items), func(i, j int) { list.Items[i], list.Items[j] = list.Items[j], list.Items[i] })
	for _, p := range list.Items[:min(1+random.IntN(most), len(list.Items))] {
		if now := do(p); now != nil && !apierrors.IsNotFound(now) && !apierrors.IsTooManyRequests(now) {
			err = errors.Join(err, now)
		}
	}
	return err
}

// scale sets the size of a workload, again and again while budgets or the API server refuse.
func (r *runner) scale(ctx context.Context, workload string, replicas int) error {
	return bed.Await(ctx, bound, "a new size of "+workload, func(ctx context.Context) (bool, string) {
		_, err := r.bed.Kubectl(ctx, "scale", "-n", Namespace, workload, fmt.Sprintf("--replicas=%d", replicas))
		return err == nil, fmt.Sprint(err)
	})
}

// deleteOwn deletes pods of Limpet without grace. A container that is killed in place would wait
// longer each time until the kubelet starts it.
func (r *runner) deleteOwn(ctx context.Context, app string, which func(corev1.Pod) bool) error {
	pods := r.bed.Client.CoreV1().Pods(bed.System)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
	if err != nil {
		return fmt.Errorf("list pods of %s: %w", app, err)
	}
	for _, p := range list.Items {
		if which(p) {
			if now := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); !apierrors.IsNotFound(now) {
				err = errors.Join(err, now)
			}
		}
	}
	return err
}
