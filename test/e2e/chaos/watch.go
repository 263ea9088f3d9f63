package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/holders"
)

// lookTwice prints the addresses of all sandboxes of a node, twice.
const lookTwice = `for look in 1 2; do` + holders.Look + `
done`

// watch watches pods and sandboxes until the context ends.
func (r *runner) watch(ctx context.Context) *sync.WaitGroup {
	var all sync.WaitGroup
	every := func(pause time.Duration, look func(context.Context)) {
		all.Go(func() {
			for ctx.Err() == nil {
				look(ctx)
				_ = r.wait(ctx, pause) // the loop ends with the context
			}
		})
	}
	every(time.Second, r.startControllers)
	for resource, open := range r.openers() {
		from := ""
		every(100*time.Millisecond, func(ctx context.Context) { from = r.follow(ctx, resource, open, from) })
	}
	alive := map[string]string{}
	every(200*time.Millisecond, func(ctx context.Context) { r.lookAtPods(ctx, alive) })
	for _, node := range r.bed.Cluster.Nodes() {
		every(2*time.Second, func(ctx context.Context) { r.lookIntoSandboxes(ctx, node) })
		every(4*time.Second, func(ctx context.Context) { r.askByARP(ctx, node) })
	}
	return &all
}

// lookAtPods tells the keeper of each pod. alive has the UID of each that was there before.
func (r *runner) lookAtPods(ctx context.Context, alive map[string]string) {
	list, err := r.bed.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the API server is away
	}
	r.keep(func(k *Keeper, now time.Time) {
		there := map[string]string{}
		for i := range list.Items {
			p := &list.Items[i]
			there[p.Name] = string(p.UID)
			if p.DeletionTimestamp != nil {
				k.Gone(p.Name, string(p.UID), now)
			} else if bed.Ready(p) && len(p.Status.PodIPs) > 0 {
				k.Ready(lifeOf(p), now)
			}
		}
		for name, uid := range alive {
			if there[name] != uid {
				k.Gone(name, uid, now)
			}
		}
		clear(alive)
		maps.Copy(alive, there)
	})
}

func lifeOf(p *corev1.Pod) Pod {
	life := Pod{Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Asks: p.Labels["app"] != "web", Required: p.Labels["app"] == "pay", Follows: p.Labels["app"] == "roam"}
	for _, ip := range p.Status.PodIPs {
		life.IPs = append(life.IPs, ip.IP)
	}
	slices.Sort(life.IPs)
	return life
}

// lookIntoSandboxes reports addresses that two sandboxes of a node have at the same time.
func (r *runner) lookIntoSandboxes(ctx context.Context, node string) {
	begin := time.Now()
	seen, err := r.sandboxes(ctx, node)
	if err != nil {
		return // the node has no power
	}
	r.mutex.Lock()
	r.report.Looks++
	r.mutex.Unlock()
	for _, twice := range append(holders.Twice(seen), r.across.Look(node, seen, begin, time.Now())...) {
		r.violate("on %s, %s", node, twice)
	}
}

func (r *runner) sandboxes(ctx context.Context, node string) ([]holders.Sighting, error) {
	out, err := r.bed.Cluster.Exec(ctx, node, "sh", "-c", lookTwice)
	if err != nil {
		return nil, err
	}
	return holders.Parse(string(out)), nil
}

// allReady tells that all pods of the workloads are Ready, no others are there, and no rollout goes on: in the middle of
// one, all pods are Ready for a moment.
func (r *runner) allReady(ctx context.Context) (bool, string) {
	list, err := r.bed.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	ready, all := 0, 0
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase == corev1.PodFailed && p.Labels["app"] == "web" {
			continue // Kubernetes keeps those of a Deployment
		}
		if all++; bed.Ready(p) && p.DeletionTimestamp == nil {
			ready++
		}
	}
	if ready != pods || all != pods {
		return false, fmt.Sprintf("%d of %d pods are Ready", ready, all)
	}
	return r.rolledOut(ctx)
}

// rolledOut tells that each pod has the template of its workload.
func (r *runner) rolledOut(ctx context.Context) (bool, string) {
	web, err := r.bed.Client.AppsV1().Deployments(Namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	if s := web.Status; s.ObservedGeneration < web.Generation || s.UpdatedReplicas != s.Replicas {
		return false, "a rollout of web goes on"
	}
	sets, err := r.bed.Client.AppsV1().StatefulSets(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if s := set.Status; s.ObservedGeneration < set.Generation || s.UpdatedReplicas != s.Replicas {
			return false, "a rollout of " + set.Name + " goes on"
		}
	}
	return true, ""
}

// nodeReady returns a question: whether a node and its agent are Ready.
func (r *runner) nodeReady(node string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		n, err := r.bed.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !slices.ContainsFunc(n.Spec.Taints, notReady) {
				return true, ""
			}
		}
		return false, "node " + node + " is not Ready"
	}
}

func notReady(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}
