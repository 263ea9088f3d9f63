package admit

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/spread"
)

// SpreadMetrics count what a replica decided about the subsets of new pods.
type SpreadMetrics struct{ decisions *prometheus.CounterVec }

// NewSpreadMetrics registers the metrics.
func NewSpreadMetrics(r prometheus.Registerer) *SpreadMetrics {
	m := &SpreadMetrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "limpet_spread_decisions_total",
		Help: "New pods of WorkloadSpreads by the reason for their subset. NoSubsetFits, SizeUnknown and SpreadNotRead have none; NotBooked was chosen without the book; " +
			"PatchFailed is counted in addition. Dry runs are not counted.",
	}, []string{"reason"})}
	for _, reason := range countedReasons {
		m.decisions.WithLabelValues(string(reason)) // 0 is shown before the first one
	}
	r.MustRegister(m.decisions)
	return m
}

// countedReasons are the values of the label.
var countedReasons = []spread.Reason{
	spread.ReasonFilled, spread.ReasonEarlier, spread.ReasonReturns, spread.ReasonFull, spread.ReasonSkipped, spread.ReasonNoSubset,
	spread.ReasonNoneFits, spread.ReasonBadPatch, spread.ReasonNotWanted, reasonSizeUnknown, reasonNotBooked, reasonNotRead,
}

// placed counts one pod. Nil metrics count nothing.
func (m *SpreadMetrics) placed(reason spread.Reason) {
	if m == nil {
		return
	}
	if !slices.Contains(countedReasons, reason) {
		reason = "other"
	}
	m.decisions.WithLabelValues(string(reason)).Inc()
}
