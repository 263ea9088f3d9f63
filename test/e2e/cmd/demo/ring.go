package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/ring"
)

// neighbours shows how a budget with groups keeps a ring whole while a node is drained. It counts no kept pods.
func neighbours(ctx context.Context, b *bed.Bed, progress func(string, ...any)) error {
	const namespace = "default"
	progress("ring: kubectl apply -f test/e2e/testdata/ring.yaml (nine pods in a ring; of three neighbours one may be away)")
	if err := ring.Apply(ctx, b, namespace); err != nil {
		return err
	}
	out, err := b.Kubectl(ctx, "get", "dpdb")
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get dpdb\n%s\n", out)
	progress("kubectl drain of the node that has the most of these pods; a dot is a pod that is away")
	r, err := ring.Run(ctx, b, namespace)
	for _, state := range r.States {
		fmt.Println("        " + state)
	}
	if len(r.Together) > 0 {
		err = errors.Join(err, fmt.Errorf("away together: %v", r.Together))
	}
	if err == nil {
		progress("the drain of %s ended without an error after %.1f s; at most %d pods were away together, and no neighbours", r.Node, r.Took.Seconds(), r.Most)
	}
	return errors.Join(err, ring.Undo(context.WithoutCancel(ctx), b, namespace, r.Node))
}
