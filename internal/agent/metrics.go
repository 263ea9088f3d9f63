package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// metrics are the agent's Prometheus metrics. Each label has few values: networks of a node,
// steps, versions.
type metrics struct {
	addresses  *prometheus.GaugeVec
	share      *prometheus.GaugeVec
	endedEarly *prometheus.CounterVec
	refused    *prometheus.CounterVec
	counted    map[string]persistence.PoolUsage // counters of the state file that are in the metrics already, by network
	plugin     *prometheus.GaugeVec
	success    prometheus.Gauge
	time       prometheus.Gauge
	ipam       *prometheus.GaugeVec
	patches    prometheus.Counter
	adopted    prometheus.Gauge
	lapsed     prometheus.Counter
	orphans    *prometheus.CounterVec
	ended      prometheus.Counter
	corrected  prometheus.Counter
	failures   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	violations *prometheus.GaugeVec
	recoveries *prometheus.CounterVec
	rebuilds   uint64 // of the state file, that are in the metrics already
	audited    prometheus.Gauge
	podsFrom   *prometheus.GaugeVec
	ages       *prometheus.GaugeVec
	unsure     prometheus.Gauge
	loanSteps  *prometheus.CounterVec
	loans      *prometheus.GaugeVec
	unreached  prometheus.Gauge
	verbMetrics
}

// The kinds of recoveries.
const (
	recoveredAttachment = "attachment" // ended, because its sandbox was gone without a DEL
	recoveredFile       = "file"       // left by an interrupted program, and removed
	recoveredPlugin     = "plugin"     // the installed file, which another program had removed or changed
	recoveredState      = "state"      // rebuilt by the plugin
	recoveredNode       = "node"       // reservations of a node that was installed again, from the API
)

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		addresses: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_pool_pods", Help: "How many pods' addresses are in a state (attached, reserved, free), by network.",
		}, []string{"network", "state"}),
		share: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_pool_share_pods", Help: "For how many pods addresses may be reserved at a time, by network.",
		}, []string{"network"}),
		endedEarly: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_reservations_gave_way_total", Help: "Reservations that ended before their deadline, by network and by what took the place: pod, reservation.",
		}, []string{"network", "to"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_pool_refusals_total", Help: "Refused pods (no address was free), refused reservations (the share or the quota was used up), and free addresses that were passed over (the node's kernel used them), by network.",
		}, []string{"network", "what"}),
		counted: map[string]persistence.PoolUsage{},
		plugin: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_plugin_install_info", Help: "1 for the version of the plugin that the agent installed.",
		}, []string{"version"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_plugin_install_success", Help: "1 when the last installation of the plugin succeeded, else 0.",
		}),
		time: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_plugin_install_timestamp_seconds", Help: "Unix time at which the agent last installed the plugin or found the same binary installed.",
		}),
		ipam: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_network_ipam", Help: "1 for the IPAM plugin of the network that the runtime uses: limpet-ipam, other, unknown.",
		}, []string{"by"}),
		patches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "limpet_agent_network_patches_total", Help: "Patches of the node's network configuration (--network=adopt): one, and one more each time that its owner has changed it.",
		}),
		adopted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_network_adopted", Help: "1 while the node's network configuration names limpet-ipam (--network=adopt), else 0.",
		}),
		lapsed: prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_reservations_lapsed_total", Help: "Reservations freed because their deadline had passed."}),
		orphans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_reservations_orphaned_total",
			Help: "Reservations ended before their deadline because no pod shall claim them, by cause: workload (its pods never return under their names), namespace (it is gone), released (a user gave them up).",
		}, []string{"cause"}),
		ended:     prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_attachments_ended_total", Help: "Attachments ended because their sandbox was gone without a DEL."}),
		corrected: prometheus.NewCounter(prometheus.CounterOpts{Name: "limpet_attachments_corrected_total", Help: "Attachments whose stored retention differed from what the pod asks for."}),
		failures:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "limpet_agent_failures_total", Help: "Failed steps of the agent, by step."}, []string{"step"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "limpet_agent_step_seconds", Help: "Duration of a step of the agent in seconds, by step.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"step"}),
		violations: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_audit_violations", Help: "Broken rules that the last audit of the state found, by kind.",
		}, []string{"kind"}),
		recoveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_agent_recoveries_total", Help: "What was mended on the node without help, by kind: attachment, file, plugin, state, node.",
		}, []string{"kind"}),
		audited: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_audit_timestamp_seconds", Help: "Unix time of the last audit that could be made.",
		}),
		podsFrom: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_pods_source", Help: "1 for the source of the node's pods: kubelet, runtime, api.",
		}, []string{"source"}),
		ages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_reservations", Help: "Reservations by network and by age: less than 1m, 10m, 1h, 6h, 1d, or longer.",
		}, []string{"network", "age"}),
		unsure: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_clock_unsynchronized",
			Help: "1 while the wall clock is not synchronized after a boot, so that no reservation from before it ends (10 minutes at most), else 0.",
		}),
		loanSteps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_agent_loan_steps_total", Help: "Steps of loans that the agent carried out, by verb: write (a record), put, remove (the loan).",
		}, []string{"verb"}),
		loans: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_agent_loans", Help: "Pods of whose addresses the state says that they are lent, or those of a guest, by role: lent, guest.",
		}, []string{"role"}),
		unreached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "limpet_agent_loan_routes_missing", Help: "Addresses on loan to other nodes to which this node could not make its route.",
		}),
		verbMetrics: newVerbMetrics(r),
	}
	for _, verb := range loanVerbs {
		m.loanSteps.WithLabelValues(verb)
	}
	for _, kind := range audit.Violations() {
		m.violations.WithLabelValues(string(kind))
	}
	for _, kind := range []string{recoveredAttachment, recoveredFile, recoveredPlugin, recoveredState, recoveredNode} {
		m.recoveries.WithLabelValues(kind)
	}
	for _, cause := range []plan.Cause{plan.CauseWorkload, plan.CauseNamespace, plan.CauseReleased} {
		m.orphans.WithLabelValues(string(cause))
	}
	r.MustRegister(m.orphans, m.violations, m.recoveries, m.audited, m.podsFrom, m.ages, m.unsure, m.unreached)
	r.MustRegister(m.plugin, m.success, m.time, m.ipam, m.addresses, m.share, m.endedEarly, m.refused, m.lapsed, m.ended, m.corrected, m.failures, m.duration)
	return m
}

// pools sets the metrics of all networks.
func (m *metrics) pools(networks []network, node, follows string, now reservation.Moment) {
	for _, n := range networks {
		s := plan.PoolStatus(node, n.Network, len(n.Reservations))
		m.addresses.WithLabelValues(n.Name, "attached").Set(float64(s.Attached))
		m.addresses.WithLabelValues(n.Name, "reserved").Set(float64(s.Reserved))
		m.addresses.WithLabelValues(n.Name, "free").Set(float64(s.Free))
		if n.Name == follows {
			m.loans.WithLabelValues("lent").Set(float64(s.Lent))
			m.loans.WithLabelValues("guest").Set(float64(s.Guests))
		}
		if s.Share != nil {
			m.share.WithLabelValues(n.Name).Set(float64(*s.Share))
		}
		for age, count := range plan.Ages(n.Reservations, now) {
			m.ages.WithLabelValues(n.Name, age).Set(float64(count))
		}
		m.count(n)
	}
}

// count adds what the state file has counted since the last call.
func (m *metrics) count(n network) {
	was, is := m.counted[n.Name], n.usage
	m.counted[n.Name] = is
	for _, c := range []struct {
		counter *prometheus.CounterVec
		label   string
		was, is uint64
	}{
		{m.endedEarly, "pod", was.Reclaimed, is.Reclaimed},
		{m.endedEarly, "reservation", was.Displaced, is.Displaced},
		{m.refused, "pod", was.Exhausted, is.Exhausted},
		{m.refused, "reservation", was.Refused, is.Refused},
		{m.refused, "address", was.InUse, is.InUse},
	} {
		if c.is < c.was { // the state file was rebuilt and counts from 0
			c.was = 0
		}
		c.counter.WithLabelValues(n.Name, c.label).Add(float64(c.is - c.was))
	}
}

// recovered counts what was mended.
func (m *metrics) recovered(kind string, n int) {
	m.recoveries.WithLabelValues(kind).Add(float64(n))
}

// auditDone records the outcome of an audit.
func (m *metrics) auditDone(found []audit.Finding, r audit.Result, now time.Time) {
	count := map[audit.Kind]int{}
	for _, f := range found {
		count[f.Kind]++
	}
	for _, kind := range audit.Violations() {
		m.violations.WithLabelValues(string(kind)).Set(float64(count[kind]))
	}
	if is := r.Report.Recoveries; !r.Unread {
		if is > m.rebuilds {
			m.recovered(recoveredState, int(is-m.rebuilds))
		}
		m.rebuilds = is
	}
	m.audited.Set(float64(now.Unix()))
}

// installed records an installation of the plugin.
func (m *metrics) installed(is installation, err error, now time.Time) {
	if m.success.Set(truth(err == nil)); err != nil {
		return
	}
	m.time.Set(float64(now.Unix()))
	m.plugin.Reset()
	m.plugin.WithLabelValues(is.version).Set(1)
}

// setIPAM records the IPAM plugin of the node.
func (m *metrics) setIPAM(is plan.IPAM) {
	for _, by := range []plan.IPAM{plan.IPAMLimpet, plan.IPAMOther, plan.IPAMUnknown} {
		m.ipam.WithLabelValues(string(by)).Set(truth(by == is))
	}
}

// truth is 1 for what is true.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
