package reconcile

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count gates.
type Metrics struct {
	gates  *prometheus.CounterVec
	memory atomic.Pointer[memory]
}

// Values of the label why.
const (
	whyLimit = "limit" // the limit of the StatefulSet allows it
	whyNone  = "none"  // the pod's workload has no limit
)

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{gates: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "limpet_scale_out_gates_opened_total",
		Help: "Gates limpet.dev/scale-out that the leader opened: limit where a limit allowed it, none where the pod's workload has no limit.",
	}, []string{"why"})}
	m.gates.WithLabelValues(whyLimit)
	m.gates.WithLabelValues(whyNone)
	r.MustRegister(m.gates, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "limpet_scale_out_waiting_pods", Help: "Pods that wait behind the gate limpet.dev/scale-out for the limit of their StatefulSet.",
	}, func() float64 {
		if of := m.memory.Load(); of != nil {
			return float64(of.waiting())
		}
		return 0
	}))
	return m
}

func (m *Metrics) opened(limited bool) {
	why := whyNone
	if limited {
		why = whyLimit
	}
	m.gates.WithLabelValues(why).Inc()
}
