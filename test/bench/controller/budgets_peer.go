package main

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keepPDB makes a PodDisruptionBudget that permits evictions, and renews its status each second as
// its controller does, until end is called.
func (g *guarding) keepPDB(ctx context.Context, s *service) (end func() error, err error) {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.set.Namespace, Name: "web"}}
	pdb.Spec.Selector, pdb.Spec.MaxUnavailable = s.set.Spec.Selector, new(intstr.FromInt32(int32(s.pods-1)))
	if err := g.Client.Create(ctx, pdb); err != nil {
		return nil, fmt.Errorf("make PodDisruptionBudget: %w", err)
	}
	renew := func() error {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(pdb), pdb); err != nil {
			return err
		}
		pdb.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: pdb.Generation, DisruptionsAllowed: int32(s.pods - 1), CurrentHealthy: int32(s.pods), DesiredHealthy: 1, ExpectedPods: int32(s.pods),
		}
		if err := g.Client.Status().Update(ctx, pdb); !apierrors.IsConflict(err) { // with an eviction
			return err
		}
		return nil
	}
	if err := poll(ctx, func(context.Context) error { return renew() }); err != nil {
		return nil, fmt.Errorf("write status of PodDisruptionBudget: %w", err)
	}
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				failed <- nil
				return
			case <-tick.C:
				if err := renew(); err != nil {
					failed <- fmt.Errorf("write status of PodDisruptionBudget: %w", err)
					return
				}
			}
		}
	}()
	return func() error { close(done); return <-failed }, nil
}
