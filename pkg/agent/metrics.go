package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// metrics are what the agent tells Prometheus. Networks are the only label: there is
// a handful of them.
type metrics struct {
	addresses *prometheus.GaugeVec
	share     *prometheus.GaugeVec
	early     *prometheus.CounterVec
	refused   *prometheus.CounterVec
	told      map[string]persistence.PoolUsage // what the counters of each network have of the state's
	plugin    *prometheus.GaugeVec
	success   prometheus.Gauge
	time      prometheus.Gauge
	use       *prometheus.GaugeVec
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
		share: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_pool_share_pods", Help: "Pods' worth of addresses that may be reserved at a time, by network.",
		}, []string{"network"}),
		early: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_reservations_gave_way_total", Help: "Reservations that ended before their time by network and what they gave way to: pod, reservation.",
		}, []string{"network", "to"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_pool_refusals_total", Help: "Pods (no address was free) and reservations (their share was held) that were refused, by network.",
		}, []string{"network", "what"}),
		told: map[string]persistence.PoolUsage{},
		plugin: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_plugin_install_info", Help: "1 for the version of the plugin that the agent put in place.",
		}, []string{"version"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_plugin_install_success", Help: "Whether the last installation of the plugin went well: 1 or 0.",
		}),
		time: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_plugin_install_timestamp_seconds", Help: "When the plugin was last put in place or found in place, at the start of the agent or later.",
		}),
		use: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_network_ipam", Help: "1 for who gives addresses in the network that the runtime uses: limpet-ipam, other, unknown.",
		}, []string{"by"}),
		lapsed:   prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_reservations_lapsed_total", Help: "Reservations freed because their time was over."}),
		ended:    prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_attachments_ended_total", Help: "Attachments ended because their sandbox was gone without a DEL."}),
		wishes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_attachments_corrected_total", Help: "Attachments whose pod asked for something else than was stored."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "limpet_agent_failures_total", Help: "Failed steps of the agent by step."}, []string{"step"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "limpet_agent_step_seconds", Help: "How long a step of the agent took.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"step"}),
	}
	r.MustRegister(m.plugin, m.success, m.time, m.use, m.addresses, m.share, m.early, m.refused, m.lapsed, m.ended, m.wishes, m.failures, m.duration)
	return m
}

func (m *metrics) pools(networks []Network, node string) {
	for _, n := range networks {
		s := newNodeIPPool(node, n, len(n.Reservations), time.Time{}).Status
		m.addresses.WithLabelValues(n.Name, "attached").Set(float64(s.Attached))
		m.addresses.WithLabelValues(n.Name, "reserved").Set(float64(s.Reserved))
		m.addresses.WithLabelValues(n.Name, "free").Set(float64(s.Free))
		if s.Share != nil {
			m.share.WithLabelValues(n.Name).Set(float64(*s.Share))
		}
		was, is := m.told[n.Name], n.Pressure
		m.told[n.Name] = is
		for _, c := range []struct {
			counter *prometheus.CounterVec
			label   string
			was, is uint64
		}{
			{m.early, "pod", was.Reclaimed, is.Reclaimed},
			{m.early, "reservation", was.Displaced, is.Displaced},
			{m.refused, "pod", was.Exhausted, is.Exhausted},
			{m.refused, "reservation", was.Refused, is.Refused},
		} {
			if c.is < c.was { // the state was lost, and counts from the beginning
				c.was = 0
			}
			c.counter.WithLabelValues(n.Name, c.label).Add(float64(c.is - c.was))
		}
	}
}

// installed tells of an installation of the plugin.
func (m *metrics) installed(is installed, err error, now time.Time) {
	if err != nil {
		m.success.Set(0)
		return
	}
	m.success.Set(1)
	m.time.Set(float64(now.Unix()))
	m.plugin.Reset()
	m.plugin.WithLabelValues(is.version).Set(1)
}

// usedBy tells who gives addresses on the node.
func (m *metrics) usedBy(by Use) {
	for _, u := range []Use{UseLimpet, UseOther, UseUnknown} {
		value := 0.0
		if u == by {
			value = 1
		}
		m.use.WithLabelValues(string(u)).Set(value)
	}
}
