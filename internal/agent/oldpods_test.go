package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
)

// oldPods is a source that no longer gets lists.
type oldPods struct{}

func (oldPods) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (oldPods) Pods(context.Context) (plan.PodList, bool, error) {
	return plan.PodList{}, true, errors.New("the known pods are old")
}

// TestOldPodsAreAFailedStep counts a list that is old, in the metric of failed steps.
func TestOldPodsAreAFailedStep(t *testing.T) {
	n := newNode(t, "old-pods")
	registry := prometheus.NewRegistry()
	n.Pods, n.PodsFrom, n.Registry = oldPods{}, "kubelet", registry
	n.start(t)
	testenv.Eventually(t, func() error {
		all, err := registry.Gather()
		if err != nil {
			return err
		}
		for _, family := range all {
			for _, m := range family.GetMetric() {
				if family.GetName() == "limpet_agent_failures_total" && m.GetLabel()[0].GetValue() == "reconcile" && m.GetCounter().GetValue() > 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("no failed step in %d metrics", len(all))
	})
}
