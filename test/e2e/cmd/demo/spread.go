package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/subsets"
)

// elastic is the Deployment and the WorkloadSpread of testdata/spread.yaml.
const elastic = "elastic"

// spread shows how a WorkloadSpread fills and empties its subsets. It counts no kept pods.
func spread(ctx context.Context, b *bed.Bed, progress func(string, ...any)) (err error) {
	const namespace = "spread-demo"
	manifest := b.Repo + "/test/e2e/testdata/spread.yaml"
	undoZones, err := subsets.Zones(ctx, b)
	if err != nil {
		return err
	}
	defer func() {
		// The namespace of its own is removed with all that is in it.
		_, removed := b.Kubectl(context.WithoutCancel(ctx), "delete", "namespace", namespace, "--ignore-not-found")
		err = errors.Join(err, removed, undoZones(context.WithoutCancel(ctx)))
	}()
	progress("spread: the first node is zone-a, the others are zone-b")
	if _, err := b.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	progress("kubectl apply -f test/e2e/testdata/spread.yaml (six pods: two owned in zone-a, all others rented in zone-b)")
	if _, err := b.Kubectl(ctx, "apply", "-n", namespace, "-f", manifest); err != nil {
		return err
	}
	if err := show(ctx, b, namespace, map[string]int{"owned in zone-a": 2, "rented in zone-b": 4}); err != nil {
		return err
	}
	if err := subsets.AwaitStatus(ctx, b, namespace, elastic, "owned 2 0;rented 4 -1;"); err != nil {
		return err
	}
	out, err := b.Kubectl(ctx, "get", "ws", "-n", namespace)
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get ws\n%s\n", out)
	if err := subsets.AwaitCosts(ctx, b, namespace, elastic); err != nil {
		return err
	}
	progress("kubectl scale deployment/elastic --replicas=3: the rented pods go first")
	if _, err := b.Kubectl(ctx, "scale", "-n", namespace, "deployment/"+elastic, "--replicas=3"); err != nil {
		return err
	}
	return show(ctx, b, namespace, map[string]int{"owned in zone-a": 2, "rented in zone-b": 1})
}

// show waits for the pods and prints where they are, which must be as wanted.
func show(ctx context.Context, b *bed.Bed, namespace string, want map[string]int) error {
	total := 0
	for _, n := range want {
		total += n
	}
	pods, err := subsets.Ready(ctx, b, namespace, elastic, total)
	if err != nil {
		return err
	}
	var lines []string
	count := subsets.Count(pods)
	for _, place := range slices.Sorted(maps.Keys(count)) {
		lines = append(lines, fmt.Sprintf("%d %s", count[place], place))
	}
	fmt.Println("         pods: " + strings.Join(lines, ", "))
	if !maps.Equal(count, want) {
		return fmt.Errorf("the pods of %s are %v, want %v", elastic, count, want)
	}
	return nil
}
