// Package drain drains a node while a budget delays the drain.
package drain

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// App is the label and the name of the Deployment in testdata/budget.yaml.
const App = "web-server"

const replicas = 6

// Result is one drain.
type Result struct {
	Node string
	// Pods are the pods of the Deployment that were on the node.
	Pods int
	// Waited are the lines that kubectl printed while the budget refused.
	Waited []string
	Took   time.Duration
	// Least is the smallest number of Ready pods while the drain ran.
	Least int
}

// Apply applies the manifest in a namespace and waits until all pods are Ready.
func Apply(ctx context.Context, b *bed.Bed, namespace string) error {
	if _, err := b.Kubectl(ctx, "apply", "-n", namespace, "-f", b.Repo+"/test/e2e/testdata/budget.yaml"); err != nil {
		return err
	}
	if _, err := b.Kubectl(ctx, "rollout", "status", "-n", namespace, "deployment/"+App, "--timeout=180s"); err != nil {
		return err
	}
	return bed.Await(ctx, time.Minute, "the budget to count its pods", func(ctx context.Context) (bool, string) {
		out, err := b.Kubectl(ctx, "get", "-n", namespace, "pub", App, "-o", "jsonpath={.status.unavailableAllowed}/{.status.totalReplicas}")
		return err == nil && out == fmt.Sprintf("1/%d", replicas), fmt.Sprint(out, err)
	})
}

// Run drains the node that has the most pods. The drain must end without an error.
func Run(ctx context.Context, b *bed.Bed, namespace string) (Result, error) {
	pods, err := living(ctx, b, namespace)
	if err != nil {
		return Result{}, err
	}
	r := Result{Least: len(pods)}
	count := map[string]int{}
	for _, p := range pods {
		if count[p.Spec.NodeName]++; count[p.Spec.NodeName] > r.Pods {
			r.Node, r.Pods = p.Spec.NodeName, count[p.Spec.NodeName]
		}
	}
	if r.Pods < 2 {
		return r, fmt.Errorf("no node has two pods of %s", App)
	}
	watched, stop := context.WithCancel(ctx)
	least := make(chan int)
	go func() { least <- watch(watched, b, namespace) }()
	start := time.Now()
	out, err := b.Kubectl(ctx, "drain", r.Node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
	r.Took = time.Since(start)
	stop()
	r.Least = <-least
	for line := range strings.Lines(out) {
		if strings.Contains(line, "will retry after") {
			r.Waited = append(r.Waited, strings.TrimSpace(line))
		}
	}
	return r, err
}

// watch returns the smallest number of Ready pods until the context ends.
func watch(ctx context.Context, b *bed.Bed, namespace string) int {
	least := replicas
	for ctx.Err() == nil {
		if pods, err := living(ctx, b, namespace); err == nil {
			least = min(least, len(pods))
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return least
}

// living returns the Ready pods.
func living(ctx context.Context, b *bed.Bed, namespace string) ([]corev1.Pod, error) {
	list, err := b.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + App})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", App, err)
	}
	var ready []corev1.Pod
	for _, p := range list.Items {
		if bed.Ready(&p) && p.DeletionTimestamp == nil {
			ready = append(ready, p)
		}
	}
	return ready, nil
}

// Undo makes the node schedulable and removes the Deployment and its budget.
func Undo(ctx context.Context, b *bed.Bed, namespace, node string) error {
	if node != "" {
		if _, err := b.Kubectl(ctx, "uncordon", node); err != nil {
			return err
		}
	}
	_, err := b.Kubectl(ctx, "delete", "-n", namespace, "--ignore-not-found", "-f", b.Repo+"/test/e2e/testdata/budget.yaml")
	return err
}
