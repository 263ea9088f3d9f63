package reconcile_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	controller "github.com/limpet-io/limpet/internal/spread/scalein/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	zone       = corev1.LabelTopologyZone
	costOf     = corev1.PodDeletionCost
	markOf     = appsv1beta1.AnnotationDeletionCost
	order      = appsv1beta1.AnnotationScaleIn
	balanced   = appsv1beta1.ScaleInBalanced
	revisionOf = "deployment.kubernetes.io/revision"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, apiextensionsv1.AddToScheme))
}

// held is a clock that stands until it is released.
type held struct {
	clock.RealClock
	at       time.Time
	released atomic.Bool
}

func (h *held) Now() time.Time {
	if h.released.Load() {
		return h.RealClock.Now()
	}
	return h.at
}

// start runs the reconciler as cmd/controller does.
func start(t *testing.T) (*controller.Reconciler, *prometheus.Registry) {
	t.Helper()
	return startWith(t, clock.RealClock{})
}

func startWith(t *testing.T, at clock.PassiveClock) (*controller.Reconciler, *prometheus.Registry) {
	t.Helper()
	mgr := env.NewManager(t, cluster.CacheOptions(controller.Needs()))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), controller.Needs()); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	r := &controller.Reconciler{
		Client: mgr.GetClient(), Clock: at, Events: mgr.GetEventRecorder("limpet-controller"),
		Metrics: controller.NewMetrics(registry),
	}
	for _, each := range []interface{ SetupWithManager(ctrl.Manager) error }{r, &controller.CloneSets{Reconciler: r}} {
		if err := each.SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
	}
	env.Start(t, mgr)
	return r, registry
}

// app is a Deployment with its ReplicaSets.
type app struct {
	*appsv1.Deployment
	sets []*appsv1.ReplicaSet // by revision
}

// anApp makes a Deployment with one ReplicaSet, spread over zones.
func anApp(t *testing.T, replicas int32, annotations map[string]string) *app {
	t.Helper()
	labels := map[string]string{"app": "web"}
	spec := testenv.APod("web").Spec
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{TopologyKey: zone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule},
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "web", Annotations: annotations},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
	env.Create(t, d)
	a := &app{Deployment: d}
	a.revise(t)
	return a
}

// revise makes a further ReplicaSet, as a rollout does.
func (a *app) revise(t *testing.T) {
	t.Helper()
	revision := fmt.Sprint(len(a.sets) + 1)
	labels := maps.Clone(a.Spec.Template.Labels)
	labels["pod-template-hash"] = revision
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: a.Name + "-" + revision, Annotations: map[string]string{revisionOf: revision, order: balanced},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a.Deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: a.Spec.Replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: a.Spec.Template.Spec},
		},
	}
	env.Create(t, set)
	a.sets = append(a.sets, set)
}

// pod makes a Ready pod of the newest revision.
func (a *app) pod(t *testing.T, name, node string, annotations ...string) *corev1.Pod {
	t.Helper()
	return podOf(t, a.sets[len(a.sets)-1], name, node, annotations...)
}

func podOf(t *testing.T, set *appsv1.ReplicaSet, name, node string, annotations ...string) *corev1.Pod {
	t.Helper()
	pod := testenv.APod(name).Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	pod.Labels = set.Spec.Template.Labels
	for pair := range slices.Chunk(annotations, 2) {
		pod = pod.With(pair[0], pair[1])
	}
	if node != "" {
		pod = pod.On(node)
	}
	if err := env.Client.Create(t.Context(), pod.Pod); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, pod.Pod)
	if node != "" { // the reconciler may have written the pod already
		text := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-22T00:00:00Z"}]}}`
		if err := env.Client.Status().Patch(t.Context(), pod.Pod, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	return pod.Pod
}

// node makes a node in a zone.
func node(t *testing.T, in string) string {
	t.Helper()
	n := testenv.ANode(env.Name("node")).Labelled(zone, in)
	env.Create(t, n.Node)
	return n.Name
}

// have waits until pods have these costs, each marked as written by Limpet; "" is none.
func have(t *testing.T, ns string, want map[string]string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		got := map[string]string{}
		for name := range want {
			var pod corev1.Pod
			env.Read(t, client.ObjectKey{Namespace: ns, Name: name}, &pod)
			got[name] = pod.Annotations[costOf]
			if mark, marked := pod.Annotations[markOf]; mark != got[name] || marked != (got[name] != "") {
				return fmt.Errorf("pod %s has the cost %q and the mark %q", name, got[name], mark)
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("costs %v, want %v", got, want)
		}
		return nil
	})
}
