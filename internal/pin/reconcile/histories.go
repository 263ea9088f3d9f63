package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/fair"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Bounds of the workloads that have metrics of their own. Tenants name workloads, and may make
// any number of them in their namespace.
const (
	mostHistories            = 500
	mostHistoriesOfNamespace = 20
)

// history is what the metrics tell of one PersistentPodState.
type history struct {
	namespace, name   string
	created           int64
	kept, moved, lost int64
	recorded          int
	waits             bool
	last              int64 // when a pod was last rebuilt; 0 for never
}

// histories shows workloads as metrics. It is empty on replicas that have not led.
type histories struct {
	rebuilds, recorded, waits, last, leftOut *prometheus.Desc

	mu      sync.Mutex
	shown   []history
	further int
}

func newHistories() *histories {
	return &histories{
		rebuilds: prometheus.NewDesc("limpet_workload_rebuilds_total", "Rebuilt pods of a PersistentPodState by outcome, as its status counts them.", []string{"workload_namespace", "persistentpodstate", "outcome"}, nil),
		recorded: prometheus.NewDesc("limpet_workload_recorded_pods", "Pods whose place a PersistentPodState holds.", []string{"workload_namespace", "persistentpodstate"}, nil),
		waits:    prometheus.NewDesc("limpet_workload_waits", "1 while pods of a PersistentPodState wait for their required place.", []string{"workload_namespace", "persistentpodstate"}, nil),
		last:     prometheus.NewDesc("limpet_workload_last_rebuild_timestamp_seconds", "Unix time at which a rebuilt pod of a PersistentPodState was last Ready.", []string{"workload_namespace", "persistentpodstate"}, nil),
		leftOut:  prometheus.NewDesc("limpet_workloads_left_out", "PersistentPodStates without metrics of their own: beyond 20 of a namespace, or 500 in all.", nil, nil),
	}
}

// Describe sends the descriptions of the metrics.
func (h *histories) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{h.rebuilds, h.recorded, h.waits, h.last, h.leftOut} {
		to <- d
	}
}

// Collect sends the metrics.
func (h *histories) Collect(to chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	for _, w := range h.shown {
		for outcome, count := range map[appsv1beta1.Outcome]int64{appsv1beta1.Kept: w.kept, appsv1beta1.Moved: w.moved, appsv1beta1.Lost: w.lost} {
			send(h.rebuilds, prometheus.CounterValue, float64(count), w.namespace, w.name, string(outcome))
		}
		send(h.recorded, prometheus.GaugeValue, float64(w.recorded), w.namespace, w.name)
		waits := 0.0
		if w.waits {
			waits = 1
		}
		send(h.waits, prometheus.GaugeValue, waits, w.namespace, w.name)
		if w.last > 0 {
			send(h.last, prometheus.GaugeValue, float64(w.last), w.namespace, w.name)
		}
	}
	send(h.leftOut, prometheus.GaugeValue, float64(h.further))
}

// read takes the workloads from the cache.
func (h *histories) read(ctx context.Context, cached client.Reader) error {
	var states appsv1beta1.PersistentPodStateList
	if err := cached.List(ctx, &states, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PersistentPodStates for metrics: %w", err)
	}
	all := make([]history, 0, len(states.Items))
	for i := range states.Items {
		all = append(all, historyOf(&states.Items[i]))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shown, h.further = pickHistories(all, mostHistoriesOfNamespace, mostHistories)
	return nil
}

func historyOf(s *appsv1beta1.PersistentPodState) history {
	w := history{
		namespace: s.Namespace, name: s.Name, created: s.CreationTimestamp.Unix(), recorded: len(s.Status.PodStates),
		waits: meta.IsStatusConditionTrue(s.Status.Conditions, appsv1beta1.ConditionWaiting),
	}
	if r := s.Status.Rebuilds; r != nil {
		w.kept, w.moved, w.lost = r.Kept, r.Moved, r.Lost
		if r.Last != nil {
			w.last = r.Last.Time.Unix()
		}
	}
	return w
}

// pickHistories returns the workloads that are shown, and how many are left out. Namespaces take
// turns: the first of each, then the second of each. The oldest of a namespace come first, so
// that a new one takes the place of no other of its namespace.
func pickHistories(all []history, ofNamespace, inAll int) (shown []history, further int) {
	slices.SortFunc(all, func(a, b history) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.created, b.created), cmp.Compare(a.name, b.name))
	})
	of := map[string]int{}
	shown = slices.DeleteFunc(slices.Clone(all), func(w history) bool {
		of[w.namespace]++
		return of[w.namespace] > ofNamespace
	})
	shown = fair.InTurns(shown, func(w history) string { return w.namespace })
	shown = shown[:min(len(shown), inAll)]
	return shown, len(all) - len(shown)
}
