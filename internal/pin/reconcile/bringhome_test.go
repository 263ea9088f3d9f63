package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A node is cordoned and its pod moves. When the node has taken pods again for the time that the
// user names, the pod is deleted so that it returns, and is told as kept when it is back.
func TestAPodIsBroughtHome(t *testing.T) {
	a := goAway(t)
	a.fit(t)
	env.Told(t, a.state, pin.ReasonReturning, "from node "+a.other+" to node "+a.home)
	a.isDeleted(t)
	for _, look := range []string{"while", "it", "ends"} { // a kubelet writes, and the recorder looks
		env.Patch(t, a.state, `{"metadata":{"labels":{"looked":"`+look+`"}}}`)
	}
	if err := client.IgnoreNotFound(env.Client.Delete(t.Context(), a.pod, client.GracePeriodSeconds(0))); err != nil { // no kubelet ends it here
		t.Fatal(err)
	}
	back := running(t, a.set, a.home, "10.0.1.5", pinnedTo(a.home)...)
	isHome(t, a.set, func(h *appsv1beta1.Home) bool { return h == nil })
	env.Told(t, back, string(appsv1beta1.Kept), a.home)
	env.ToldOnce(t, a.state, pin.ReasonReturning)
	env.ToldOnce(t, a.pod, string(appsv1beta1.Moved))
	env.ToldOnce(t, back, string(appsv1beta1.Kept))
	if n := env.CountEvents(t, a.set.StatefulSet, pin.ReasonReturned); n != 0 {
		t.Errorf("%d events %s beside the one of the pod", n, pin.ReasonReturned)
	}
}

// A cache that is behind shows a pod that was deleted to return, or one that is gone, as before. Its return is told once.
func TestAReturnIsToldOnceWhileTheCacheIsBehind(t *testing.T) {
	ns, home, other := env.Namespace(t), env.Node(t), env.Node(t)
	state := testenv.APersistentPodState("web").In(ns).PersistentPodState
	at := metav1.Now()
	state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {Home: &appsv1beta1.Home{NodeName: home.Name, IPs: "10.0.1.5", ReturningAt: &at}}}
	pod := testenv.APod("web-0").In(ns).On(other.Name).Ready().Pod
	env.Create(t, pod)
	var behind corev1.Pod
	env.Read(t, client.ObjectKeyFromObject(pod), &behind)
	told := events.NewFakeRecorder(10)
	recorder := controller.Recorder{Events: told, Metrics: controller.NewMetrics(prometheus.NewRegistry()), Evictor: &evict.Evictor{Client: env.Client}}
	for _, gone := range []bool{false, false, true} {
		if gone {
			env.Remove(t, pod)
		}
		if err := recorder.BringHome(t.Context(), state, &behind); err != nil {
			t.Error(err)
		}
	}
	close(told.Events)
	if said := slices.Collect(channel(told.Events)); len(said) != 1 || !strings.Contains(said[0], pin.ReasonReturning) {
		t.Errorf("events %q, want one", said)
	}
}

// TestAnEarlierCRDBringsNoPodHome has a CRD that drops the note that a pod returns. No pod is deleted until the CRD
// keeps the note: without it, a pod that cannot return would be deleted again and again.
func TestAnEarlierCRDBringsNoPodHome(t *testing.T) {
	testenv.Beside(t, &env)
	a := goAway(t)
	whole := withoutReturningAt(t, a.state)
	a.fit(t)
	env.Told(t, a.state, "NotRecorded", "apply the CRDs of this version")
	var pod corev1.Pod
	if env.Read(t, client.ObjectKeyFromObject(a.pod), &pod); pod.UID != a.pod.UID || pod.DeletionTimestamp != nil {
		t.Errorf("the pod was deleted: %+v", pod.ObjectMeta)
	}
	whole()
	env.Patch(t, a.state, `{"metadata":{"labels":{"looked":"after-the-upgrade"}}}`)
	a.isDeleted(t)
}

// absence is a pod that has moved away from its home for a cause that passes.
type absence struct {
	passing     *clocktesting.FakePassiveClock
	set         testenv.StatefulSet
	state       *appsv1beta1.PersistentPodState
	pod         *corev1.Pod
	node        *corev1.Node
	home, other string
}

// goAway runs a recorder, cordons a node and has its pod run elsewhere.
func goAway(t *testing.T) absence {
	t.Helper()
	m := newManager(t)
	passing := clocktesting.NewFakePassiveClock(time.Now())
	recorder := m.recorder()
	recorder.Clock = passing
	m.start(t, recorder)
	home, other, set := env.Node(t), env.Node(t), preferring(t)
	state := env.MustState(t, set)
	env.Patch(t, state, `{"metadata":{"annotations":{"`+pin.AnnotationReturnAfter+`":"5m"}}}`)
	first := running(t, set, home.Name, "10.0.1.5")
	env.Cordon(t, home.Node)
	env.Remove(t, first)
	env.Create(t, testenv.AReservation(first, time.Now()))
	away := running(t, set, other.Name, "10.0.2.5", append(pinnedTo(home.Name), pin.AnnotationMayReturn, home.Name)...)
	isHome(t, set, func(h *appsv1beta1.Home) bool { return h != nil && h.NodeName == home.Name && h.FitSince == nil })
	return absence{passing: passing, set: set, state: state, pod: away, node: home.Node, home: home.Name, other: other.Name}
}

// fit has the home take pods for as long as the user names.
func (a absence) fit(t *testing.T) {
	t.Helper()
	env.Patch(t, a.node, `{"spec":{"unschedulable":null}}`)
	isHome(t, a.set, func(h *appsv1beta1.Home) bool { return h != nil && h.FitSince != nil })
	a.passing.SetTime(a.passing.Now().Add(5 * time.Minute))
	env.Patch(t, a.state, `{"metadata":{"labels":{"looked":"again"}}}`)
}

func (a absence) isDeleted(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var pod corev1.Pod
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(a.pod), &pod)
		if apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil {
			return nil
		}
		return fmt.Errorf("pod %s stays: %w", a.pod.Name, err)
	})
}

// withoutReturningAt takes a field out of the CRD. The function that it returns puts it back, as the end of the test does.
func withoutReturningAt(t *testing.T, state *appsv1beta1.PersistentPodState) (whole func()) {
	t.Helper()
	var former *apiextensionsv1.CustomResourceDefinitionSpec
	env.ChangeCRD(t, testenv.ConvertedCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		if former == nil {
			former = crd.Spec.DeepCopy()
		}
		for _, v := range crd.Spec.Versions {
			home := v.Schema.OpenAPIV3Schema.Properties["status"].Properties["podStates"].AdditionalProperties.Schema.Properties["home"]
			delete(home.Properties, "returningAt")
		}
	})
	keeps(t, state, false)
	whole = func() {
		if former != nil {
			env.ChangeCRD(t, testenv.ConvertedCRD, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = *former })
			former = nil
			keeps(t, state, true)
		}
	}
	t.Cleanup(whole)
	return whole
}

// keeps waits until the API server keeps or drops the field.
func keeps(t *testing.T, state *appsv1beta1.PersistentPodState, want bool) {
	t.Helper()
	const note = `{"status":{"podStates":{"probe":{"nodeName":"n","home":{"nodeName":"n","uid":"u","until":"2026-01-01T00:00:00Z","returningAt":"2026-01-01T00:00:00Z"}}}}}`
	testenv.Eventually(t, func() error {
		s := state.DeepCopy()
		if err := env.Client.Status().Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(note)), client.DryRunAll); err != nil {
			return err
		}
		if home := s.Status.PodStates["probe"].Home; home == nil || (home.ReturningAt != nil) != want {
			return fmt.Errorf("the API server answers %+v", home)
		}
		return nil
	})
}

// isHome waits for the home in the record of a StatefulSet's first pod.
func isHome(t *testing.T, set testenv.StatefulSet, wanted func(*appsv1beta1.Home) bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if home := state.Status.PodStates["web-0"].Home; err == nil && !wanted(home) {
			err = fmt.Errorf("home %+v", home)
		}
		return err
	})
}
