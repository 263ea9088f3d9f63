package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Metrics are the controller's metrics beside those of the library.
type Metrics struct {
	rebuilds    *prometheus.CounterVec
	releases    *prometheus.CounterVec
	returns     prometheus.Counter
	disbelieved *prometheus.GaugeVec
	missing     *prometheus.GaugeVec
	histories   *histories
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		histories: newHistories(),
		rebuilds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_rebuilds_total",
			Help: "Pods that were Ready again after a rebuild, by outcome (Kept, Moved, Lost) and by the cause of the other two. A pod that asked for no address is never Lost.",
		}, []string{"outcome", "cause"}),
		releases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_releases_total",
			Help: "Waiting pods that were released from their required place, by what kept them from it.",
		}, []string{"cause"}),
		returns: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "limpet_returns_total",
			Help: "Pods that were deleted so that they return to a node that could not take them for a while.",
		}),
		disbelieved: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_disbelieved_objects",
			Help: "IPReservations and NodeIPPools that the live Node in their status does not own, by kind. The leader counts them each minute.",
		}, []string{"kind"}),
		missing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "limpet_missing_crds",
			Help: "1 for a CRD that does not exist or is being deleted, so that its objects are gone. The leader looks each minute.",
		}, []string{"crd"}),
	}
	m.showZeros()
	r.MustRegister(m.rebuilds, m.releases, m.returns, m.disbelieved, m.missing, m.histories)
	return m
}

// causesOf are the causes of each outcome.
var causesOf = map[appsv1beta1.Outcome][]string{
	appsv1beta1.Kept: {""},
	appsv1beta1.Moved: {
		pin.CauseReleased, pin.CauseRecalled, pin.CauseNotPinned, pin.CauseLabelMissing, pin.CauseSameTopology, pin.CauseNodeRefused,
		pin.ReasonNodeGone, pin.ReasonNodeNotReady, pin.ReasonNodeCordoned, pin.ReasonNodeTainted, pin.ReasonNodeOutOfIPs,
		pin.ReasonPodElsewhere, pin.ReasonSubsetElsewhere,
	},
	appsv1beta1.Lost: {
		pin.CauseExpired, pin.CauseRangeChanged, pin.CauseNameTaken, pin.CauseReclaimed, pin.CauseStateReplaced, pin.CauseForced, pin.CauseNotHeld,
	},
}

// showZeros makes the series of known causes. For Prometheus, a counter that appears with 1
// has not increased: an alert would not tell the first pod that lost its address.
func (m *Metrics) showZeros() {
	for outcome, causes := range causesOf {
		for _, cause := range causes {
			m.rebuilds.WithLabelValues(string(outcome), cause)
		}
	}
	for _, cause := range append(pin.PlaceReasons, pin.ReasonNotStarted) {
		m.releases.WithLabelValues(cause)
	}
	for _, kind := range []string{"IPReservation", "NodeIPPool"} {
		m.disbelieved.WithLabelValues(kind)
	}
}

// rebuilt counts one rebuild. Causes are about a dozen constants.
func (m *Metrics) rebuilt(r appsv1beta1.Rebuild) {
	m.rebuilds.WithLabelValues(string(r.Outcome), r.Cause).Inc()
}

// released counts one pod that was released.
func (m *Metrics) released(d pin.PlaceDecision) { m.releases.WithLabelValues(d.Reason).Inc() }
