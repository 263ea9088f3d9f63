package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// Runner executes steps.
type Runner struct {
	Bed *bed.Bed
	// App is the label app of the pods; "" for that of the StatefulSet.
	App string
	// Follows tells that the addresses of the pods follow them: no pod is free to lose them.
	Follows bool

	before map[string]Seen
}

// limit bounds how long the rebuilds of one step may take.
const limit = 3 * time.Minute

// Run executes one step and returns the result of each pod.
func (r *Runner) Run(ctx context.Context, s Step) (results []Result, err error) {
	if r.before, err = r.observe(ctx); err != nil {
		return nil, err
	}
	pods := s.Pods
	if len(pods) == 0 {
		pods = slices.Sorted(maps.Keys(r.before))
	}
	if s.Undo != nil {
		defer func() { err = errors.Join(err, s.Undo(context.WithoutCancel(ctx), r)) }()
	}
	w := startWatch(ctx, r, pods)
	if err := s.Do(ctx, r); err != nil {
		w.stop()
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	waitErr := w.wait(limit, pods)
	after, err := r.observe(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		result := Result{Step: s.Name, Pod: p, Before: r.before[p], After: after[p], Took: w.took[p], FreeToMove: s.FreeToMove, Outcome: Judge(r.before[p], after[p])}
		if r.Follows {
			result.FreeToMove = ""
		}
		if result.Outcome != Gone {
			result.Problem = r.call(ctx, result)
			result.Answered = result.Problem == ""
		}
		results = append(results, result)
	}
	return results, waitErr
}

// call requests the pod's name at all addresses that the pod had, or has now if it was free to
// move. It returns what is wrong with the responses; "" for nothing.
func (r *Runner) call(ctx context.Context, result Result) string {
	ips := result.Before.IPs
	if result.FreeToMove != "" && result.Outcome == Moved {
		ips = result.After.IPs
	}
	for _, ip := range ips {
		var answer string
		err := bed.Await(ctx, time.Minute, "a response", func(ctx context.Context) (bool, string) {
			var err error
			answer, err = r.Bed.Call(ctx, result.After.Node, net.JoinHostPort(ip, "8080"))
			return err == nil, fmt.Sprint(err)
		})
		if err != nil {
			return fmt.Sprintf("no response at %s: %v", ip, err)
		}
		if !strings.Contains(answer, "name="+result.Pod+" ") {
			return fmt.Sprintf("another pod responds at %s: %s", ip, strings.TrimSpace(answer))
		}
	}
	return ""
}

// Apply applies the manifest and waits until the pods are Ready and recorded.
func (r *Runner) Apply(ctx context.Context, manifest string) error {
	if err := r.kubectl(ctx, "apply", "-f", manifest); err != nil {
		return err
	}
	return bed.Await(ctx, 3*time.Minute, "two pods to be Ready and recorded", func(ctx context.Context) (bool, string) {
		pods, err := r.observe(ctx)
		if err != nil || len(pods) != 2 {
			return false, fmt.Sprint(len(pods), " pods ", err)
		}
		recorded, err := r.Bed.Recorded(ctx, Namespace, Set)
		for _, p := range pods {
			if !p.Ready || recorded[p.Name] == "" {
				return false, fmt.Sprintf("%+v, recorded: %v %v", p, recorded, err)
			}
		}
		return true, ""
	})
}

// observe returns the pods by name.
func (r *Runner) observe(ctx context.Context) (map[string]Seen, error) {
	list, err := r.Bed.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + cmp.Or(r.App, Set)})
	if err != nil {
		return nil, fmt.Errorf("observe pods: %w", err)
	}
	pods := map[string]Seen{}
	for i := range list.Items {
		pods[list.Items[i].Name] = see(&list.Items[i])
	}
	return pods, nil
}

func see(p *corev1.Pod) Seen {
	s := Seen{Name: p.Name, Node: p.Spec.NodeName, UID: p.UID, Ready: bed.Ready(p), Deleting: p.DeletionTimestamp != nil}
	for _, ip := range p.Status.PodIPs {
		s.IPs = append(s.IPs, ip.IP)
	}
	for _, c := range p.Status.ContainerStatuses {
		s.Restarts += c.RestartCount
	}
	return s
}

func (r *Runner) kubectl(ctx context.Context, args ...string) error {
	_, err := r.Bed.Kubectl(ctx, args...)
	return err
}

func (r *Runner) delete(ctx context.Context, pods ...string) error {
	return r.kubectl(ctx, append([]string{"delete", "pod", "--wait=false"}, pods...)...)
}

// awaitPods waits until a component of Limpet has the wanted number of pods.
func (r *Runner) awaitPods(ctx context.Context, app string, want int) error {
	return bed.Await(ctx, time.Minute, fmt.Sprintf("%d pods of %s", want, app), func(ctx context.Context) (bool, string) {
		pods, err := r.Bed.Client.CoreV1().Pods(bed.System).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
		return err == nil && len(pods.Items) == want, fmt.Sprint(len(pods.Items), " pods ", err)
	})
}
