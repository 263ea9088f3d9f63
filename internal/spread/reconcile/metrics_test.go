package reconcile_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	notPlaced = "limpet_spreads_not_placed"
	skipped   = "limpet_spread_skipped_subsets"
)

// becomes waits until a metric has a value.
func becomes(t *testing.T, registry *prometheus.Registry, name string, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got := gaugeOf(t, registry, name); got != want {
			return fmt.Errorf("%s is %v, want %v", name, got, want)
		}
		return nil
	})
}

// named wants the one series that names a spread and its trouble.
func named(t *testing.T, registry *prometheus.Registry, ws *appsv1beta1.WorkloadSpread, trouble string) {
	t.Helper()
	want := trouble + " " + ws.Namespace + " " + ws.Name
	if all := testenv.SeriesOf(t, registry, "limpet_spread_troubles"); !slices.Contains(all, want) {
		t.Errorf("the metric names %q, want %q among them", all, want)
	}
}

// A spread is counted while a pod has no subset, or while a patch does not apply.
func TestSpreadsThatAreNotPlacedAreCounted(t *testing.T) {
	registry := start(t)
	a := anApp(t, 2)
	ws := spreadOf(t, a, "1", nil, "x", "y")
	shows(t, ws, "x:0/1 y:0/-1 Placed")
	becomes(t, registry, notPlaced, 0)
	outside := a.pod(t, "p1", node(t, "z"))
	shows(t, ws, "x:0/1 y:0/-1 NoSubsetFits")
	becomes(t, registry, notPlaced, 1)
	named(t, registry, ws, "NotPlaced")
	env.Remove(t, outside)
	becomes(t, registry, notPlaced, 0)

	b := anApp(t, 1)
	broken := spreadOf(t, b, "1", func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"image":"no-name"}]}}`)}
	}, "x", "y")
	b.pod(t, "p1", node(t, "x"), match, matched("x"))
	shows(t, broken, "x:1/0 y:0/-1 PatchFailed")
	becomes(t, registry, notPlaced, 1)
	env.Remove(t, broken)
	becomes(t, registry, notPlaced, 0)
}

// A subset is counted while it is skipped, and no longer when its spread is gone.
func TestSkippedSubsetsAreCounted(t *testing.T) {
	registry := start(t)
	a := anApp(t, 2)
	waits := a.pod(t, "p1", "", match, matched("x"))
	ws := spreadOf(t, a, "2", adaptive(300, appsv1beta1.ReturnNever), "x", "y")
	becomes(t, registry, skipped, 0)
	refuse(t, waits)
	becomes(t, registry, skipped, 1)
	named(t, registry, ws, "NoNode")
	if n := gaugeOf(t, registry, notPlaced); n != 0 {
		t.Errorf("%v spreads are counted as not placed", n)
	}
	env.Remove(t, ws)
	becomes(t, registry, skipped, 0)
}
