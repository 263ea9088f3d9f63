package agent_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestAlertsNameMetricsAndRunbooks checks that each alert names a metric of the agent and has a section
// on the page of alerts, and that the runbook names each metric.
func TestAlertsNameMetricsAndRunbooks(t *testing.T) {
	metrics, n := &testenv.Collectors{}, newNode(t, "alerts")
	n.Registry, n.OwnNetwork = metrics, true
	if _, err := agent.New(n.Config); err != nil {
		t.Fatal(err)
	}
	testenv.MetricsInRunbook(t, metrics.Labels())
	testenv.AlertsNameMetrics(t, "deploy/alerts/prometheusrule.yaml", metrics.Labels(), 12)
}
