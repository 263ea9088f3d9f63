package agent

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the agent tells Prometheus. Networks are the only label: there is
// a handful of them.
type metrics struct {
	addresses *prometheus.GaugeVec
	lapsed    prometheus.Counter
	ended     prometheus.Counter
	wishes    prometheus.Counter
	failures  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		addresses: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_pool_pods", Help: "Pods' worth of addresses by network and state: attached, reserved, free.",
		}, []string{"network", "state"}),
		lapsed:   prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_reservations_lapsed_total", Help: "Reservations freed because their time was over."}),
		ended:    prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_attachments_ended_total", Help: "Attachments ended because their sandbox was gone without a DEL."}),
		wishes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_attachments_corrected_total", Help: "Attachments whose pod asked for something else than was stored."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "limpet_agent_failures_total", Help: "Failed steps of the agent by step."}, []string{"step"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "limpet_agent_step_seconds", Help: "How long a step of the agent took.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"step"}),
	}
	r.MustRegister(m.addresses, m.lapsed, m.ended, m.wishes, m.failures, m.duration)
	return m
}

func (m *metrics) pools(networks []Network, node string) {
	for _, n := range networks {
		s := newNodeIPPool(node, n, len(n.Reservations)).Status
		m.addresses.WithLabelValues(n.Name, "attached").Set(float64(s.Attached))
		m.addresses.WithLabelValues(n.Name, "reserved").Set(float64(s.Reserved))
		m.addresses.WithLabelValues(n.Name, "free").Set(float64(s.Free))
	}
}
