package reconcile_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	controller "github.com/limpet-io/limpet/internal/rollout/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	limitOf     = appsv1beta1.AnnotationScaleOutLimit
	partitionOf = appsv1beta1.AnnotationPartition
	expectedOf  = appsv1beta1.AnnotationExpectedUpdated
	gate        = appsv1beta1.GateScaleOut
	pinGate     = pin.Gate
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme))
}

// start runs the reconcilers as the leader does, until the test ends or stop is called.
func start(t *testing.T) (stop func()) {
	t.Helper()
	mgr := newManager(t, controller.Needs())
	run(t, mgr)
	return env.Start(t, mgr)
}

func newManager(t *testing.T, needs ...cluster.Needs) ctrl.Manager {
	t.Helper()
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	return mgr
}

// run adds the reconcilers to a manager.
func run(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	metrics, events := controller.NewMetrics(prometheus.NewRegistry()), mgr.GetEventRecorder("limpet-controller")
	for _, r := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&controller.Opener{Client: mgr.GetClient(), Clock: clock.RealClock{}, Events: events, Metrics: metrics},
		&controller.Unlimited{Client: mgr.GetClient(), Clock: clock.RealClock{}, Metrics: metrics},
		&controller.Partitioner{Client: mgr.GetClient(), Events: events},
	} {
		if err := r.SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
	}
}

// aSet makes a StatefulSet whose pods start in parallel.
func aSet(t *testing.T, replicas int32, change ...func(testenv.StatefulSet)) *appsv1.StatefulSet {
	t.Helper()
	set := testenv.AStatefulSet("web", replicas).In(env.Namespace(t))
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	for _, edit := range change {
		edit(set)
	}
	env.Create(t, set.StatefulSet)
	return set.StatefulSet
}

func with(key, value string) func(testenv.StatefulSet) {
	return func(s testenv.StatefulSet) { s.With(key, value) }
}

// grow makes pods of a set behind gates, as the webhook does.
func grow(t *testing.T, set *appsv1.StatefulSet, ordinals ...int) (pods []*corev1.Pod) {
	t.Helper()
	for _, i := range ordinals {
		pods = append(pods, gatedPod(t, set, i, gate))
	}
	return pods
}

func gatedPod(t *testing.T, set *appsv1.StatefulSet, ordinal int, gates ...string) *corev1.Pod {
	t.Helper()
	return create(t, testenv.APod(fmt.Sprintf("%s-%d", set.Name, ordinal)).In(set.Namespace).OwnedBy(set).Gated(gates...))
}

// create makes a pod that the reconcilers may change at once.
func create(t *testing.T, pod testenv.Pod) *corev1.Pod {
	t.Helper()
	if err := env.Client.Create(t.Context(), pod.Pod); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, pod.Pod)
	return pod.Pod
}

// ready makes a pod Ready, as a scheduler and a kubelet do.
func ready(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	text := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"` +
		time.Now().UTC().Format(time.RFC3339) + `"}]}}`
	if err := env.Client.Status().Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// opened waits until exactly these pods of a set have no gate of ours.
func opened(t *testing.T, ns string, want ...string) {
	t.Helper()
	slices.Sort(want)
	testenv.Eventually(t, func() error {
		if got := openIn(t, ns); !slices.Equal(got, want) {
			return fmt.Errorf("open are %v, want %v", got, want)
		}
		return nil
	})
}

func openIn(t *testing.T, ns string) (names []string) {
	t.Helper()
	var pods corev1.PodList
	if err := env.Client.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if !slices.Contains(gatesOf(&pods.Items[i]), gate) {
			names = append(names, pods.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func gatesOf(pod *corev1.Pod) (names []string) {
	for _, g := range pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return names
}
