package reconcile_test

import (
	"testing"

	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// Each metric is in the runbook. Each alert reads metrics that exist, and names a section.
func TestAlertsAndTheRunbookNameTheMetrics(t *testing.T) {
	collectors := &testenv.Collectors{}
	controller.NewMetrics(collectors)
	testenv.MetricsInRunbook(t, collectors.Labels())
	testenv.AlertsNameMetrics(t, "deploy/alerts/rebuilds.yaml", collectors.Labels(), 2)
}
