package disruption

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/budget"
)

// Metrics count what a replica decided.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "limpet_budget_decisions_total",
		Help: "Answers to requests that may make a pod of a budget unavailable, by the way in which the pod goes, the verdict and its reason. " +
			"Dry runs are not counted.",
	}, []string{"vector", "verdict", "reason"})}
	for _, vector := range []budget.Vector{budget.Evict, budget.Delete} { // 0 is shown before the first one
		m.decisions.WithLabelValues(string(vector), string(budget.Allowed), string(budget.ReasonUnits))
		m.decisions.WithLabelValues(string(vector), string(budget.Refused), string(budget.ReasonExhausted))
	}
	r.MustRegister(m.decisions)
	return m
}

// other takes the place of a value that is no constant of package budget.
const other = "other"

// Decided counts one answer. Nil metrics count nothing.
func (m *Metrics) Decided(vector budget.Vector, d budget.Decision) {
	if m == nil {
		return
	}
	m.decisions.WithLabelValues(known(budget.Vectors, vector), known(budget.Verdicts, d.Verdict), known(budget.Reasons, d.Reason)).Inc()
}

// known returns a value of a list as it is, so that no request can make a new series.
func known[T ~string](list []T, value T) string {
	if !slices.Contains(list, value) {
		return other
	}
	return string(value)
}
