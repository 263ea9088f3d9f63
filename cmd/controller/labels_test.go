package main

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	budgetcontroller "github.com/limpet-io/limpet/internal/budget/reconcile"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/serving"
	rolloutcontroller "github.com/limpet-io/limpet/internal/rollout/reconcile"
	scaleincontroller "github.com/limpet-io/limpet/internal/spread/scalein/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// boundsOfLabels says why each label has few values, whatever tenants do. A label that is
// added here needs its bound.
var boundsOfLabels = map[string]string{
	"outcome":            "Kept, Moved, Lost",
	"cause":              "constants of internal/pin; another word in an annotation counts as none",
	"kind":               "IPReservation, NodeIPPool",
	"reason":             "constants of internal/platform/serving, internal/platform/endpoint, internal/pin/reconcile, internal/budget/reconcile and internal/budget",
	"vector":             "constants of internal/budget",
	"verdict":            "Allowed, Refused, Accounted",
	"order":              "subsets, balanced, none",
	"why":                "limit, none",
	"workload_namespace": "internal/pin/reconcile shows at most 500 workloads, internal/platform/endpoint 50 troubles of a kind",
	"budget":             "at most 50 troubles of budgets, in turns of their namespaces",
	"workloadspread":     "at most 50 troubles of spreads, in turns of their namespaces",
	"trouble":            "NotEnforced, Waits, NotPlaced, NoNode",
	"persistentpodstate": "internal/pin/reconcile shows at most 500 workloads, 20 of a namespace",

	"crd":    "the CRDs of the controller's own kinds",
	"action": "adopted, rescheduled, returned",

	"controller": "one per reconciler; the kinds of workload are named by an administrator",
	"name":       "work queues, one per reconciler, and the one Lease",
	"result":     "success, error, requeue, requeue_after",
	"priority":   "constants of controller-runtime",
	"webhook":    "paths that are registered",
	"answer":     "allowed, changed, denied, error",
	"code":       "HTTP status codes",
	"method":     "HTTP methods that the controller itself uses",
	"host":       "the API server",
	"verb":       "verbs that the controller itself uses",
	"le":         "constant buckets",
	"quantile":   "constants",
	"version":    "of Go, or of the program",
	"goversion":  "one",
	"program":    "limpet-controller",
}

func TestLabelsOfTheControllerAreBounded(t *testing.T) {
	metrics := &testenv.Collectors{}
	pincontroller.NewMetrics(metrics)
	budgetcontroller.NewMetrics(metrics, clock.RealClock{})
	disruption.NewMetrics(metrics)
	scaleincontroller.NewMetrics(metrics)
	rolloutcontroller.NewMetrics(metrics)
	serving.NewServer(serving.Options{Certificate: &serving.Certificate{}, Registry: metrics, Limits: serving.DefaultLimits, Clock: clock.RealClock{}})
	serving.NewAnswers(metrics, clock.RealClock{})
	all := metrics.Labels()
	if len(all) < 2 {
		t.Errorf("found %d metrics: the test tests little", len(all))
	}
	for metric, labels := range all {
		for _, label := range labels {
			if boundsOfLabels[label] == "" {
				t.Errorf("%s has the label %s, for which no bound is known", metric, label)
			}
		}
	}
}

// labelsShown checks what a replica shows, the metrics of its libraries included.
func labelsShown(t *testing.T, r *replica) {
	all := testenv.LabelsShown(r.scrape(t))
	for metric, labels := range all {
		for label, values := range labels {
			slices.Sort(values)
			if n := len(slices.Compact(values)); boundsOfLabels[label] == "" || n > 60 {
				t.Errorf("%s has %d values of the label %s, for which the bound is %q", metric, n, label, boundsOfLabels[label])
			}
		}
	}
	if len(all) < 20 {
		t.Errorf("found %d metrics: the test tests little: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
}
