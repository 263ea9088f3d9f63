package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// verbMetrics are what the plugin's log tells of its verbs.
type verbMetrics struct {
	verbTimes   *prometheus.HistogramVec
	verbErrors  *prometheus.CounterVec
	verbsUnread prometheus.Counter
}

func newVerbMetrics(r prometheus.Registerer) verbMetrics {
	m := verbMetrics{
		verbTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "limpet_plugin_verb_seconds", Help: "Duration of a verb of the plugin in seconds, by verb and outcome, as its log says.",
			Buckets: []float64{0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 60}, // at rest, behind other verbs, behind a predecessor
		}, []string{"verb", "outcome"}),
		verbErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_plugin_errors_total", Help: "Verbs of the plugin that failed or were refused, by verb and CNI code.",
		}, []string{"verb", "code"}),
		verbsUnread: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "limpet_plugin_log_unread_total", Help: "Lines of the plugin's log that the agent did not understand and did not count.",
		}),
	}
	for _, v := range plan.UsualVerbs() {
		m.verbTimes.WithLabelValues(v.Name, v.Outcome)
	}
	for _, code := range []string{"11", "100", "101"} { // try again later, exhausted, required
		m.verbErrors.WithLabelValues("ADD", code)
	}
	r.MustRegister(m.verbTimes, m.verbErrors, m.verbsUnread)
	return m
}

// verb counts one verb.
func (m verbMetrics) verb(v plan.PluginVerb) {
	m.verbTimes.WithLabelValues(v.Name, v.Outcome).Observe(v.Took.Seconds())
	if v.Code != "" {
		m.verbErrors.WithLabelValues(v.Name, v.Code).Inc()
	}
}
