// Package ring drains a node of a ring of pods, and watches which of them are away together.
package ring

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// Name is the name of the StatefulSet and of the budget in testdata/ring.yaml, and the value of the label app.
const Name = "ring"

// pods of the ring, and window of which one may be away.
const pods, window = 9, 3

// Result is one drain.
type Result struct {
	Node string
	Took time.Duration
	// States are the rings that were seen, one after the other: the ordinal of a pod that is Ready, or a dot.
	States []string
	// Most is how many pods were away together.
	Most int
	// Together names neighbours that were away together, which must not be.
	Together []string
}

// Apply applies the manifest in a namespace, and waits until the budget counts nine groups.
func Apply(ctx context.Context, b *bed.Bed, namespace string) error {
	if _, err := b.Kubectl(ctx, "apply", "-n", namespace, "-f", b.Repo+"/test/e2e/testdata/ring.yaml"); err != nil {
		return err
	}
	if _, err := b.Kubectl(ctx, "rollout", "status", "-n", namespace, "statefulset/"+Name, "--timeout=120s"); err != nil {
		return err
	}
	return bed.Await(ctx, time.Minute, "the budget to count its groups", func(ctx context.Context) (bool, string) {
		out, err := b.Kubectl(ctx, "get", "-n", namespace, "dpdb", Name, "--no-headers")
		return err == nil && strings.HasPrefix(strings.Join(strings.Fields(out), " "), "ring 3 9 9 9 0 True"), fmt.Sprint(out, err)
	})
}

// Run drains the node that has the most pods. The drain must end without an error.
func Run(ctx context.Context, b *bed.Bed, namespace string) (Result, error) {
	_, node, err := look(ctx, b, namespace)
	if err != nil {
		return Result{}, err
	}
	watched, stop := context.WithCancel(ctx)
	seen := make(chan Result)
	go func() { seen <- watch(watched, b, namespace) }()
	start := time.Now()
	_, err = b.Kubectl(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
	took := time.Since(start)
	stop()
	r := <-seen
	r.Node, r.Took = node, took
	return r, err
}

// watch looks at the ring until the context ends.
func watch(ctx context.Context, b *bed.Bed, namespace string) (r Result) {
	for ctx.Err() == nil {
		if ready, _, err := look(ctx, b, namespace); err == nil {
			r.add(ready)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return r
}

// add judges what was seen at one moment.
func (r *Result) add(ready [pods]bool) {
	state, away := "", 0
	for i := range pods {
		if ready[i] {
			state += fmt.Sprint(" ", i)
			continue
		}
		state += " ."
		away++
		for apart := 1; apart < window; apart++ {
			if j := (i + apart) % pods; !ready[j] {
				r.Together = append(r.Together, fmt.Sprintf("%s-%d and %s-%d", Name, i, Name, j))
			}
		}
	}
	if r.Most = max(r.Most, away); len(r.States) == 0 || r.States[len(r.States)-1] != state {
		r.States = append(r.States, state)
	}
}

// look returns which pods are Ready, and the node that has the most.
func look(ctx context.Context, b *bed.Bed, namespace string) (ready [pods]bool, node string, err error) {
	list, err := b.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + Name})
	if err != nil {
		return ready, "", fmt.Errorf("list pods of %s: %w", Name, err)
	}
	on := map[string]int{}
	for _, p := range list.Items {
		var i int
		if _, err := fmt.Sscanf(p.Name, Name+"-%d", &i); err != nil || i >= pods {
			return ready, "", fmt.Errorf("pod %s is none of the ring: %w", p.Name, err)
		}
		ready[i] = bed.Ready(&p) && p.DeletionTimestamp == nil
		if on[p.Spec.NodeName]++; on[p.Spec.NodeName] > on[node] {
			node = p.Spec.NodeName
		}
	}
	return ready, node, nil
}

// Undo makes the node schedulable, and removes the ring and its budget.
func Undo(ctx context.Context, b *bed.Bed, namespace, node string) error {
	if node != "" {
		if _, err := b.Kubectl(ctx, "uncordon", node); err != nil {
			return err
		}
	}
	_, err := b.Kubectl(ctx, "delete", "-n", namespace, "--ignore-not-found", "-f", b.Repo+"/test/e2e/testdata/ring.yaml")
	return err
}
