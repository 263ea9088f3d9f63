package reconcile_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/budget/peers"
	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// configuration is the name of the webhook configuration of this package.
const configuration = "limpet-controller"

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

type reconciler interface{ SetupWithManager(ctrl.Manager) error }

// manager makes the reconcilers of one test, as cmd/controller does.
type manager struct {
	ctrl.Manager
	reader  *disruption.Reader
	books   *books.Books
	metrics *prometheus.Registry
}

func newManager(t *testing.T) *manager {
	t.Helper()
	needs := []cluster.Needs{disruption.Needs(), controller.Needs(), books.Needs(), workloads.Needs("limpet-system")}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	m := &manager{Manager: mgr, metrics: prometheus.NewRegistry()}
	m.reader = disruption.NewReader(mgr.GetCache(), mgr.GetClient())
	m.books = books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}})
	return m
}

// start runs the reconcilers under test until the test ends, or stop is called.
func (m *manager) start(t *testing.T, reconcilers ...reconciler) (stop func()) {
	t.Helper()
	for _, r := range reconcilers {
		if err := r.SetupWithManager(m); err != nil {
			t.Fatalf("set up %T: %v", r, err)
		}
	}
	return env.Start(t, m)
}

func (m *manager) reconciler() *controller.Reconciler {
	return &controller.Reconciler{
		Client: m.GetClient(), Reader: m.reader, Books: m.books, Kinds: workloads.NewRegistry(), Clock: clock.RealClock{},
		Prober: &controller.Prober{Client: m.GetClient(), Live: m.GetAPIReader(), Configuration: configuration},
		Events: m.GetEventRecorder("limpet-controller"), Metrics: controller.NewMetrics(m.metrics, clock.RealClock{}),
		Peers: peers.New(peers.Options{Scheme: m.GetScheme(), Cached: m.GetCache(), Live: m.GetAPIReader()}),
	}
}

// watcher keeps up to date which kinds of workload a registry knows.
func (m *manager) watcher(t *testing.T, kinds *workloads.Registry) *workloads.Watcher {
	t.Helper()
	served, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	return &workloads.Watcher{
		Registry: kinds, Client: m.GetClient(), Live: m.GetAPIReader(), Discovery: served, Namespaces: []string{"limpet-system"},
		Events: m.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: m.Elected(),
	}
}

func (m *manager) labeler(c clock.PassiveClock) *controller.Labeler {
	return &controller.Labeler{
		Client: m.GetClient(), Pods: m.GetCache(), Live: m.GetAPIReader(), Clock: c, Events: m.GetEventRecorder("limpet-controller"),
	}
}

// startReconciler runs a reconciler alone.
func startReconciler(t *testing.T) *manager {
	t.Helper()
	m := newManager(t)
	m.start(t, m.reconciler())
	return m
}

// guarding has the API server ask the guard, with the decisions of a manager, until the test
// ends. It must be called before the manager is started.
func (m *manager) guarding(t *testing.T) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	judge := disruption.NewJudge(disruption.Options{Reader: m.reader, Books: m.books, Live: m.GetAPIReader(), Clock: clock.RealClock{}})
	server := httptest.NewTLSServer(&webhook.Admission{Handler: &guard.Handler{Judge: judge.Judge, Live: m.GetAPIReader()}})
	t.Cleanup(server.Close)
	w := testenv.ReadWebhooks(t).Validating
	w.Webhooks = slices.DeleteFunc(w.Webhooks, func(w admissionv1.ValidatingWebhook) bool {
		return *w.ClientConfig.Service.Path != disruption.GuardPath
	})
	for i := range w.Webhooks {
		w.Webhooks[i].ClientConfig = admissionv1.WebhookClientConfig{
			URL:      new(server.URL + disruption.GuardPath),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}
	}
	env.Create(t, w)
	return w
}

// aBudget begins a budget of the pods with the label app.
func aBudget(ns, name string, maxUnavailable intstr.IntOrString) *policyv1beta1.PodUnavailableBudget {
	return &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, MaxUnavailable: &maxUnavailable,
		},
	}
}

// pods makes Ready pods of a set.
func pods(t *testing.T, set testenv.StatefulSet, n int) []*corev1.Pod {
	t.Helper()
	var made []*corev1.Pod
	for i := range n {
		pod := testenv.APod(fmt.Sprintf("%s-%d", set.Name, i)).In(set.Namespace).OwnedBy(set.StatefulSet).Ready()
		pod.Labels = set.Spec.Selector.MatchLabels
		env.Create(t, pod.Pod)
		made = append(made, pod.Pod)
	}
	return made
}

// numbers are what a budget shows.
type numbers struct{ allowed, current, desired, total int32 }

// shows waits for the numbers of a budget.
func shows(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, want numbers) {
	t.Helper()
	status(t, pub, func(s policyv1beta1.PodUnavailableBudgetStatus) error {
		got := numbers{s.UnavailableAllowed, s.CurrentAvailable, s.DesiredAvailable, s.TotalReplicas}
		if got != want || s.ObservedGeneration != pub.Generation {
			return fmt.Errorf("numbers %+v of generation %d, want %+v of %d", got, s.ObservedGeneration, want, pub.Generation)
		}
		return nil
	})
}

// status waits until the status of a budget passes a check.
func status(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, check func(policyv1beta1.PodUnavailableBudgetStatus) error) {
	t.Helper()
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(pub), pub)
		return check(pub.Status)
	})
}

// unguarded returns how many losses the metrics count, by reason, without those of none.
func (m *manager) unguarded(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := m.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "limpet_budget_unguarded_disruptions_total" && metric.GetCounter().GetValue() > 0 {
				counts[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return counts
}

// counted waits for the losses that the metrics count.
func (m *manager) counted(t *testing.T, want map[string]float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if diff := cmp.Diff(want, m.unguarded(t)); diff != "" {
			return fmt.Errorf("losses (-want +got):\n%s", diff)
		}
		return nil
	})
}

// has waits for a condition of a budget, with a word of its message.
func has(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, kind string, want metav1.ConditionStatus, reason, word string) {
	t.Helper()
	status(t, pub, func(s policyv1beta1.PodUnavailableBudgetStatus) error { return hasNow(s, kind, want, reason, word) })
}

// writes counts the writes of an object from now on, up to the version that the API has when count is called.
func writes(t *testing.T, o client.Object) (count func() int) {
	t.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme, Mapper: env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	list := &policyv1beta1.PodUnavailableBudgetList{}
	w, err := c.Watch(t.Context(), list, client.InNamespace(o.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int64
	var version atomic.Value
	version.Store("1")
	go func() {
		for e := range w.ResultChan() {
			if e.Type == watch.Modified {
				seen.Add(1)
			}
			if o, is := e.Object.(client.Object); is {
				version.Store(o.GetResourceVersion())
			}
		}
	}()
	t.Cleanup(w.Stop)
	return func() int {
		now := o.DeepCopyObject().(client.Object)
		env.Read(t, client.ObjectKeyFromObject(o), now)
		testenv.Eventually(t, func() error {
			if v := version.Load().(string); cluster.Behind(v, now.GetResourceVersion()) {
				return fmt.Errorf("the watch is at version %s, want %s", v, now.GetResourceVersion())
			}
			return nil
		})
		return int(seen.Load())
	}
}

// hasNow compares a condition.
func hasNow(s policyv1beta1.PodUnavailableBudgetStatus, kind string, want metav1.ConditionStatus, reason, word string) error {
	c := meta.FindStatusCondition(s.Conditions, kind)
	if c == nil || c.Status != want || c.Reason != reason || !strings.Contains(c.Message, word) {
		return fmt.Errorf("%s: %+v, want %s for %s with %q", kind, c, want, reason, word)
	}
	return nil
}

// gauge returns a metric without labels.
func (m *manager) gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := m.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
