package reconcile

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// Metrics count what the reconciler writes.
type Metrics struct {
	writes *prometheus.CounterVec
	memory atomic.Pointer[memory]
}

// Values of the label order.
const (
	orderNone     = "none"
	orderSubsets  = "subsets"
	orderBalanced = "balanced"
)

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "limpet_deletion_cost_writes_total",
		Help: "Deletion costs of pods that the leader wrote, by the order: subsets, balanced, or none for costs that were removed.",
	}, []string{"order"})}
	for _, order := range []string{orderNone, orderSubsets, orderBalanced} {
		m.writes.WithLabelValues(order)
	}
	r.MustRegister(m.writes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "limpet_foreign_deletion_cost_pods", Help: "Pods of ordered workloads whose deletion cost is of a user or another program.",
	}, func() float64 {
		if of := m.memory.Load(); of != nil {
			return float64(of.foreign())
		}
		return 0
	}))
	return m
}

func (m *Metrics) wrote(s *situation, w scalein.Write) {
	order := orderSubsets
	switch {
	case w.Cost == "":
		order = orderNone
	case s.balanced:
		order = orderBalanced
	}
	m.writes.WithLabelValues(order).Inc()
}
