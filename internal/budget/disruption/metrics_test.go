package disruption_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
)

// A value that no constant names shares one series, so that no request makes a new one.
func TestDecisionsAreCountedUnderKnownValues(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := disruption.NewMetrics(registry)
	refused := budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonExhausted}
	m.Decided(budget.Evict, refused)
	m.Decided(budget.Evict, refused)
	m.Decided("a-vector", budget.Decision{Verdict: "a-verdict", Reason: "a-reason"})
	m.Decided("b-vector", budget.Decision{Verdict: "b-verdict", Reason: "b-reason"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			labels := ""
			for _, l := range metric.Label {
				labels += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			if count := metric.Counter.GetValue(); count > 0 {
				got[family.GetName()+labels] = count
			}
		}
	}
	want := map[string]float64{
		"limpet_budget_decisions_total reason=BudgetExhausted vector=evict verdict=Refused": 2,
		"limpet_budget_decisions_total reason=other vector=other verdict=other":             2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// A room without metrics decides as well.
func TestNilMetricsCountNothing(t *testing.T) {
	var m *disruption.Metrics
	m.Decided(budget.Evict, budget.Decision{Verdict: budget.Allowed, Reason: budget.ReasonUnits})
}
