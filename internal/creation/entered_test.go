package creation_test

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/creation"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	rolloutadmit "github.com/limpet-io/limpet/internal/rollout/admit"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// mostEntered bounds the files that a reader of the creation of a pod with a spread has to open.
const mostEntered = 10

func TestACreationEntersFewFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this builds all rooms once more, with coverage, for a minute; make test-all runs it")
	}
	files := testenv.EnteredBy(t, "TestOneCreation")
	t.Logf("%d files:\n%s", len(files), strings.Join(files, "\n"))
	if len(files) > mostEntered || len(files) < 5 {
		t.Errorf("a creation enters %d files, want at most %d", len(files), mostEntered)
	}
}

// A pod of a Deployment gets its subset, from a webhook with all planners.
func TestOneCreation(t *testing.T) {
	ns := &corev1.Namespace{}
	env.Read(t, client.ObjectKey{Name: env.Namespace(t)}, ns)
	env.Change(t, ns, func() { ns.Labels[appsv1beta1.LabelSpreads] = "open" })
	d, rs := aDeployment(t, ns.Name, 4)
	env.Create(t, aSpread(ns.Name, "web", "apps/v1", "Deployment", d.Name, "near=2", "far"))
	needs := []cluster.Needs{pincontroller.Needs(), workloads.Needs(namespaces...), spreadadmit.Needs()}
	c := env.RunCache(t, cluster.CacheOptions(needs...), func(c client.FieldIndexer) error { return cluster.AddIndexes(t.Context(), c, needs...) })
	mgr := env.NewManager(t, cache.Options{})
	live := mgr.GetAPIReader()
	reader := &workloads.Reader{Registry: workloads.NewRegistry(), Cached: c, Live: live, LiveProven: live, Namespaces: namespaces}
	spreads, err := newSpread(t.Context(), mgr, c.(cache.Cache), reader)
	if err != nil {
		t.Fatal(err)
	}
	pins := &pinadmit.Planner{
		Cached: c, Live: live, LiveProven: live, Workloads: reader, Sightings: &cluster.Sightings{Clock: clock.RealClock{}}, Clock: clock.RealClock{},
	}
	webhook := &creation.Handler{
		Planners:       []creation.Planner{pins, spreads, &rolloutadmit.Planner{Workloads: reader}},
		MaxReservation: time.Hour, Clock: clock.RealClock{}, Labelled: true,
	}
	synced(t, spreads)
	if os.Getenv(testenv.EntersVar) == "no" {
		return
	}
	if got := chosen(t, webhook.Handle(t.Context(), createIn(t, testenv.Pod{Pod: generated(rs)}, false))); got != "near" {
		t.Errorf("subset %q", got)
	}
}
