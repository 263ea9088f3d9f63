// Package subsets divides the nodes of the test bed into zones, and counts pods by subset.
package subsets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const (
	zone    = "topology.kubernetes.io/zone"
	matched = "apps.kruise.io/matched-workloadspread"
)

// Zones puts the first node into zone-a and the others into zone-b. The returned function
// removes the labels.
func Zones(ctx context.Context, b *bed.Bed) (undo func(context.Context) error, err error) {
	undo = func(ctx context.Context) error {
		_, err := b.Kubectl(ctx, "label", "nodes", "--all", zone+"-")
		return err
	}
	for i, node := range b.Cluster.Nodes() {
		in := zone + "=zone-b"
		if i == 0 {
			in = zone + "=zone-a"
		}
		if _, err := b.Kubectl(ctx, "label", "--overwrite", "node", node, in); err != nil {
			return undo, errors.Join(err, undo(ctx))
		}
	}
	return undo, nil
}

// Pod is a pod with its subset, "" for none, and the zone of its node.
type Pod struct {
	corev1.Pod

	Subset, Zone string
}

// Ready waits for a number of Ready pods with the label app, and returns these by name. No other
// pod with the label may exist.
func Ready(ctx context.Context, b *bed.Bed, namespace, app string, want int) (map[string]Pod, error) {
	found := map[string]Pod{}
	err := bed.Await(ctx, 2*time.Minute, fmt.Sprintf("%d Ready pods of %s", want, app), func(ctx context.Context) (bool, string) {
		list, err := b.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false, err.Error()
		}
		clear(found)
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil {
				found[p.Name] = Pod{Pod: p, Subset: subsetOf(&p)}
			}
		}
		return len(found) == want && len(list.Items) == want, fmt.Sprintf("%d Ready of %d", len(found), len(list.Items))
	})
	if err != nil {
		return nil, err
	}
	for name, p := range found {
		node, err := b.Client.CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get node %s: %w", p.Spec.NodeName, err)
		}
		p.Zone = node.Labels[zone]
		found[name] = p
	}
	return found, nil
}

func subsetOf(p *corev1.Pod) string {
	var match struct {
		Subset string `json:"subset"`
	}
	_ = json.Unmarshal([]byte(p.Annotations[matched]), &match) // without a match there is no subset
	return match.Subset
}

// Count counts pods by subset and zone, as in "owned in zone-a".
func Count(pods map[string]Pod) map[string]int {
	count := map[string]int{}
	for _, p := range pods {
		count[p.Subset+" in "+p.Zone]++
	}
	return count
}

// AwaitStatus waits until the status of a spread has these numbers, as in "owned 2 0; rented 4 -1;".
func AwaitStatus(ctx context.Context, b *bed.Bed, namespace, name, want string) error {
	return bed.Await(ctx, time.Minute, "the status "+want, func(ctx context.Context) (bool, string) {
		out, err := b.Kubectl(ctx, "get", "ws", "-n", namespace, name, "-o",
			"jsonpath={range .status.subsetStatuses[*]}{.name} {.replicas} {.missingReplicas};{end}")
		return err == nil && out == want, fmt.Sprint(out, err)
	})
}

// AwaitCosts waits until each pod has a deletion cost.
func AwaitCosts(ctx context.Context, b *bed.Bed, namespace, app string) error {
	return bed.Await(ctx, time.Minute, "the deletion costs of "+app, func(ctx context.Context) (bool, string) {
		list, err := b.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false, err.Error()
		}
		for _, p := range list.Items {
			if p.Annotations[corev1.PodDeletionCost] == "" {
				return false, p.Name + " has none"
			}
		}
		return len(list.Items) > 0, ""
	})
}
