package reconcile

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Values of the label action.
const (
	adopted     = "adopted"
	rescheduled = "rescheduled"
	returned    = "returned"
)

// Values of the label trouble.
const notPlaced, noNode = "NotPlaced", "NoNode"

// Metrics are what the leader knows of all spreads.
type Metrics struct {
	pods *prometheus.CounterVec

	mu      sync.Mutex
	spreads map[types.NamespacedName]shown
}

// shown is what the metrics need of one status.
type shown struct {
	skipped   int
	waits     int // subsets that are not skipped, although a pod waits for a node
	notPlaced bool
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		spreads: map[types.NamespacedName]shown{},
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_spread_pods_total",
			Help: "Pods of WorkloadSpreads that the leader gave a subset (adopted), or deleted: rescheduled, because no node took them, or returned.",
		}, []string{"action"}),
	}
	for _, action := range []string{adopted, rescheduled, returned} {
		m.pods.WithLabelValues(action)
	}
	gauge := func(name, help string, of func(shown) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(m.sum(of)) })
	}
	r.MustRegister(m.pods,
		gauge("limpet_spreads", "WorkloadSpreads that the leader has reconciled.", func(shown) int { return 1 }),
		gauge("limpet_spread_skipped_subsets", "Subsets that get no new pods, because the scheduler found no node for a pod.", func(s shown) int { return s.skipped }),
		gauge("limpet_spread_unschedulable_subsets", "Subsets that get new pods although the scheduler finds no node for one of their pods.", func(s shown) int { return s.waits }),
		gauge("limpet_spreads_not_placed", "WorkloadSpreads whose condition Placed is not True.", func(s shown) int {
			if s.notPlaced {
				return 1
			}
			return 0
		}),
		endpoint.NewTroubles("limpet_spread_troubles", "WorkloadSpreads with pods that have no subset (NotPlaced), and with subsets that have no node for a pod, by their number (NoNode). At most 50 are named.",
			"workloadspread", m.troubles, notPlaced, noNode))
	return m
}

// troubles names the spreads for an alert.
func (m *Metrics) troubles() (all []endpoint.Trouble) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, s := range m.spreads {
		if s.notPlaced {
			all = append(all, endpoint.Trouble{Namespace: key.Namespace, Name: key.Name, What: notPlaced, Value: 1})
		}
		if n := s.skipped + s.waits; n > 0 {
			all = append(all, endpoint.Trouble{Namespace: key.Namespace, Name: key.Name, What: noNode, Value: float64(n)})
		}
	}
	return all
}

func (m *Metrics) sum(of func(shown) int) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.spreads {
		n += of(s)
	}
	return n
}

func (m *Metrics) moved(action string, n int) { m.pods.WithLabelValues(action).Add(float64(n)) }

// shown remembers what a status shows.
func (m *Metrics) shown(key types.NamespacedName, status appsv1beta1.WorkloadSpreadStatus) {
	s := shown{notPlaced: !meta.IsStatusConditionTrue(status.Conditions, appsv1beta1.ConditionPlaced)}
	for _, subset := range status.SubsetStatuses {
		c := meta.FindStatusCondition(subset.Conditions, appsv1beta1.ConditionSchedulable)
		switch {
		case c == nil || c.Status != metav1.ConditionFalse:
		case c.Reason == appsv1beta1.ReasonPodWaits:
			s.waits++
		default:
			s.skipped++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spreads[key] = s
}

// forget removes a spread.
func (m *Metrics) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.spreads, key)
}
