package reconcile_test

import (
	"testing"

	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// Each metric is in the runbook. Each alert reads metrics that exist, and names a section.
func TestAlertsAndTheRunbookNameTheMetrics(t *testing.T) {
	collectors := &testenv.Collectors{}
	controller.NewMetrics(collectors, clock.RealClock{})
	disruption.NewMetrics(collectors)
	testenv.MetricsInRunbook(t, collectors.Labels())
	testenv.AlertsNameMetrics(t, "deploy/alerts/budgets.yaml", collectors.Labels(), 3)
}
