package reconcile

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

// Metrics are what the leader knows of all budgets.
type Metrics struct {
	unguarded *prometheus.CounterVec

	mu      sync.Mutex
	budgets map[client.ObjectKey]condition
}

// condition is what the metrics need to know of one budget.
type condition struct {
	enforced bool
	// waiting is since when a request waits that is refused again and again; zero for none.
	waiting time.Time
	// unjudged is when a pod last went without a question; zero for none that is known.
	unjudged time.Time
}

// Values of the label trouble.
const notEnforced, waits, wentUnjudged = "NotEnforced", "Waits", "Unjudged"

// unjudgedFor is how long a budget is named after a pod of it went without a question.
const unjudgedFor = time.Hour

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer, c clock.PassiveClock) *Metrics {
	m := &Metrics{
		budgets: map[client.ObjectKey]condition{},
		unguarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limpet_budget_unguarded_disruptions_total",
			Help: "Available pods of budgets that became unavailable without a request that was judged, by the reason.",
		}, []string{"reason"}),
	}
	for _, reason := range causes {
		m.unguarded.WithLabelValues(string(reason)) // 0 is shown before the first one
	}
	r.MustRegister(m.unguarded,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "limpet_budgets", Help: "Budgets of both kinds that the leader has reconciled.",
		}, func() float64 { all, _, _ := m.sum(); return float64(all) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "limpet_budgets_not_enforced", Help: "Budgets of both kinds whose condition Enforced is not True.",
		}, func() float64 { _, not, _ := m.sum(); return float64(not) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "limpet_budget_longest_wait_seconds",
			Help: "Age of the oldest request that a budget still refuses; 0 when no request waits.",
		}, func() float64 {
			_, _, since := m.sum()
			if since.IsZero() {
				return 0
			}
			return max(0, c.Since(since).Seconds())
		}),
		endpoint.NewTroubles("limpet_budget_troubles", "Budgets that protect nothing (NotEnforced), that refuse a request, with its age in seconds (Waits), and of which a pod went without a question within the hour (Unjudged). At most 50 are named.",
			"budget", func() []endpoint.Trouble { return m.troubles(c.Now()) }, notEnforced, waits, wentUnjudged),
	)
	return m
}

// troubles names the budgets for an alert.
func (m *Metrics) troubles(now time.Time) (all []endpoint.Trouble) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, b := range m.budgets {
		if !b.enforced {
			all = append(all, endpoint.Trouble{Namespace: key.Namespace, Name: key.Name, What: notEnforced, Value: 1})
		}
		if !b.waiting.IsZero() {
			all = append(all, endpoint.Trouble{Namespace: key.Namespace, Name: key.Name, What: waits, Value: max(0, now.Sub(b.waiting).Seconds())})
		}
		if now.Sub(b.unjudged) < unjudgedFor {
			all = append(all, endpoint.Trouble{Namespace: key.Namespace, Name: key.Name, What: wentUnjudged, Value: 1})
		}
	}
	return all
}

func (m *Metrics) sum() (all, notEnforced int, waiting time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.budgets {
		all++
		if !b.enforced {
			notEnforced++
		}
		if !b.waiting.IsZero() && (waiting.IsZero() || b.waiting.Before(waiting)) {
			waiting = b.waiting
		}
	}
	return all, notEnforced, waiting
}

// shown remembers what the status of a budget says.
func (m *Metrics) shown(budget client.ObjectKey, c condition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budgets[budget] = c
}

// forget drops a budget that is gone.
func (m *Metrics) forget(budget client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.budgets, budget)
}

// lost counts an available pod that became unavailable without a request.
func (m *Metrics) lost(c cause) { m.unguarded.WithLabelValues(string(c)).Inc() }
