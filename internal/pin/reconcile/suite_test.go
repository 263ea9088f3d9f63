package reconcile_test

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const hostname = corev1.LabelHostname

// namespaces are where further kinds of workload are named.
var namespaces = []string{"limpet-system", "kruise-system"}

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

type reconciler interface{ SetupWithManager(ctrl.Manager) error }

// manager makes the reconcilers of one test, as cmd/controller does.
type manager struct {
	ctrl.Manager
	reader     *workloads.Reader
	watcher    *workloads.Watcher
	metrics    *prometheus.Registry
	aggregator *controller.Aggregator
	elected    <-chan struct{} // of the nominator
}

func newManager(t *testing.T) *manager {
	t.Helper()
	needs := []cluster.Needs{controller.Needs(), workloads.Needs(namespaces...)}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{Manager: mgr, metrics: prometheus.NewRegistry(), elected: mgr.Elected()}
	m.reader = &workloads.Reader{
		Registry: workloads.NewRegistry(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Scales: mgr.GetClient(), Namespaces: namespaces,
	}
	m.watcher = &workloads.Watcher{
		Registry: m.reader.Registry, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: namespaces,
		Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: mgr.Elected(),
	}
	m.aggregator = &controller.Aggregator{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Clock: testenv.HastyClock{}, Events: mgr.GetEventRecorder("limpet-controller"), Pace: hasty,
	}
	return m
}

// hasty is a pace in which each event comes soon.
var hasty = func() pin.Pace {
	p := pin.UsualPace
	p.Returned, p.Reserved, p.Ended, p.Conflict, p.Between = 0, 0, 0, 0, 0
	return p
}()

// start runs the reconcilers under test, and no others, until the test ends or stop is called.
func (m *manager) start(t *testing.T, reconcilers ...reconciler) (stop func()) {
	t.Helper()
	for _, r := range append([]reconciler{m.watcher, m.aggregator}, reconcilers...) {
		if err := r.SetupWithManager(m); err != nil {
			t.Fatalf("set up %T: %v", r, err)
		}
	}
	stop = env.Start(t, m)
	knows = m.GetClient()
	t.Cleanup(func() { knows = nil })
	return stop
}

// knows is the cache of the manager that was started last; nil while none runs.
var knows client.Reader

func (m *manager) recorder() *controller.Recorder {
	return &controller.Recorder{
		Client: m.GetClient(), Workloads: m.reader, Watcher: m.watcher, MaxReservation: time.Hour, Clock: clock.RealClock{},
		Events: m.GetEventRecorder("limpet-controller"), Aggregator: m.aggregator, Metrics: controller.NewMetrics(m.metrics), Evictor: &evict.Evictor{Client: m.GetClient()},
		Leases: &controller.LeaseMonitor{Live: m.GetAPIReader(), Clock: clock.RealClock{}},
	}
}

func (m *manager) generator() *controller.Generator {
	return &controller.Generator{Client: m.GetClient(), Live: m.GetAPIReader(), Watcher: m.watcher, Events: m.GetEventRecorder("limpet-controller")}
}

func (m *manager) nominator() *controller.Nominator {
	return &controller.Nominator{
		Client: m.GetClient(), Workloads: m.reader, Clock: clock.RealClock{}, Elected: m.elected, Events: m.GetEventRecorder("limpet-controller"),
		Leases: &controller.LeaseMonitor{Live: m.GetAPIReader(), Clock: clock.RealClock{}},
	}
}

func (m *manager) resyncer() *controller.Resyncer {
	return &controller.Resyncer{Client: m.GetClient(), Cache: m.GetCache(), Workloads: m.reader, Clock: testenv.HastyClock{}}
}

// startRecorder runs a recorder alone.
func startRecorder(t *testing.T) {
	t.Helper()
	m := newManager(t)
	m.start(t, m.recorder())
}

// startGenerator runs a generator alone.
func startGenerator(t *testing.T) {
	t.Helper()
	m := newManager(t)
	m.start(t, m.generator())
}
