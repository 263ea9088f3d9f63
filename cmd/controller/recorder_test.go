package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/evict"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/workloads"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// recorder is one that works when the test asks it to, by a clock of the test.
func recorder(t *testing.T) (*controller.Recorder, *clocktesting.FakePassiveClock, *events.FakeRecorder) {
	t.Helper()
	c, err := client.New(env.Config, client.Options{
		Scheme: env.Scheme, Cache: &client.CacheOptions{Reader: cached(t, cluster.CacheOptions(controller.Needs()))},
	})
	if err != nil {
		t.Fatal(err)
	}
	at, told := clocktesting.NewFakePassiveClock(time.Now()), events.NewFakeRecorder(100)
	return &controller.Recorder{
		Client: c, Workloads: &workloads.Reader{Registry: &workloads.Registry{}, Cached: c}, MaxReservation: time.Hour, Clock: at,
		Events: told, Metrics: controller.NewMetrics(prometheus.NewRegistry()), Evictor: &evict.Evictor{Client: c},
	}, at, told
}

// heard are the events since the last call.
func heard(told *events.FakeRecorder) []string {
	var said []string
	for {
		select {
		case text := <-told.Events:
			said = append(said, text)
		default:
			return said
		}
	}
}

// stranded makes a set's pod as the webhook would for a required node, with what a
// scheduler that refuses it says.
func stranded(t *testing.T, set testenv.StatefulSet, node, refusal string) *corev1.Pod {
	t.Helper()
	pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).
		With(appsv1beta1.AnnotationInjected, "web").With(pin.AnnotationPlace, hostname+"="+node)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: refusal,
	}}
	env.Create(t, pod.Pod)
	return pod.Pod
}

// A pod waits for a place whose PersistentPodState is deleted. It goes on waiting while
// that may be made anew, and not for ever.
func TestAPodOutlivesThePersistentPodStateThatMadeItWait(t *testing.T) {
	cases := map[string]bool{"which is made anew": true, "for good": false}
	for name, anew := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			set := testenv.AStatefulSet("web", 1).In(ns)
			env.Create(t, set.StatefulSet)
			pod := stranded(t, set, "gone", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
			r, at, told := recorder(t)
			req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}
			reconcile := func() (again time.Duration) {
				t.Helper()
				result, err := r.Reconcile(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter
			}

			if again := reconcile(); again != time.Minute {
				t.Errorf("looks again after %s, want a minute", again)
			}
			if said := heard(told); len(said) != 1 || !strings.Contains(said[0], pin.ReasonWaiting) {
				t.Errorf("events %q, want one that tells of the wait", said)
			}
			at.SetTime(at.Now().Add(59 * time.Second))
			if again := reconcile(); again != time.Second {
				t.Errorf("looks again after %s, want a second", again)
			}
			if anew {
				env.Create(t, testenv.APersistentPodState("web").In(ns).Requires(hostname).PersistentPodState)
				testenv.Eventually(t, func() error { // until the cache shows it
					reconcile()
					return waitingAs(t, set.StatefulSet, metav1.ConditionTrue, pin.ReasonNodeGone)
				})
			}
			at.SetTime(at.Now().Add(time.Second))
			reconcile()
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
			if anew && err != nil || !anew && !apierrors.IsNotFound(err) {
				t.Errorf("get pod: %v, with its PersistentPodState made anew: %v", err, anew)
			}
			if said := strings.Join(heard(told), "\n"); strings.Contains(said, pin.ReasonReleased) == anew {
				t.Errorf("events:\n%s", said)
			}
		})
	}
}

// A pod waits for a node that its constraint forbids. The minute that it is given does not
// begin before that is the reason, and it is told of each reason once.
func TestAConstraintIsGivenAMinuteOfItsOwn(t *testing.T) {
	ns := env.Namespace(t)
	node := testenv.ANode("c-" + ns[len(ns)-5:])
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, node.Node, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Requires(hostname).PersistentPodState)
	var nodes corev1.NodeList
	if err := env.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	n := len(nodes.Items)
	pod := stranded(t, set, node.Name, fmt.Sprintf("0/%d nodes are available: %d Insufficient cpu.", n, n))
	r, at, told := recorder(t)
	look := func(after time.Duration, reason string, events int) {
		t.Helper()
		at.SetTime(at.Now().Add(after))
		var said []string
		testenv.Eventually(t, func() error { // until the cache shows what was done
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
				t.Fatal(err)
			}
			said = append(said, heard(told)...)
			return waitingAs(t, set.StatefulSet, metav1.ConditionTrue, reason)
		})
		if len(said) != events {
			t.Errorf("events %q, want %d", said, events)
		}
	}
	look(0, pin.CauseNodeRefused, 1)
	look(time.Hour, pin.CauseNodeRefused, 0)
	before := pod.DeepCopy()
	pod.Status.Conditions[0].Message = fmt.Sprintf("0/%d nodes are available: %d node(s) didn't match pod topology spread constraints.", n, n)
	if err := env.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	look(time.Second, pin.CauseConstraint, 1)
	look(59*time.Second, pin.CauseConstraint, 0)
	at.SetTime(at.Now().Add(time.Second))
	testenv.Eventually(t, func() error {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
			t.Fatal(err)
		}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get pod: %w, want it let go", err)
		}
		return nil
	})
}

// A pod that asks for no address is made while no webhook answers, and starts away from
// its required place. The controller that is back says so.
func TestAPodThatNothingHeldToItsPlaceIsTold(t *testing.T) {
	ns := env.Namespace(t)
	home, elsewhere := testenv.ANode("h-"+ns[len(ns)-5:]), testenv.ANode("e-"+ns[len(ns)-5:])
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, home.Node, elsewhere.Node, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Requires(hostname).PersistentPodState)
	pod := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).On(home.Name).At("10.0.3.5").Ready().Pod
	env.Create(t, pod)
	r, _, told := recorder(t)
	recorded := func(node string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
				t.Fatal(err)
			}
			return recordedOn(t, set, map[string]string{"web-0": node})
		})
	}
	recorded(home.Name)
	remove(t, pod)
	cordon(t, home.Node)
	env.Create(t, testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).On(elsewhere.Name).At("10.0.4.5").Ready().Pod)
	recorded(elsewhere.Name)
	said := strings.Join(heard(told), "\n")
	for _, word := range []string{string(appsv1beta1.Moved), pin.CauseNotPinned, home.Name} {
		if !strings.Contains(said, word) {
			t.Errorf("events %q do not name %s", said, word)
		}
	}
	if state, err := stateOf(t, set.StatefulSet); err != nil || state.Status.Rebuilds.Last.Cause != pin.CauseNotPinned {
		t.Errorf("status %+v (%v), want the cause %s", state.Status.Rebuilds, err, pin.CauseNotPinned)
	}
}

// deserted deletes what made a pod wait, and sees that told at once.
func deserted(t *testing.T) {
	ns := env.Namespace(t)
	node := testenv.ANode("d-" + ns[len(ns)-5:])
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Requires(hostname)
	env.Create(t, node.Node, set.StatefulSet, state.PersistentPodState)
	pod := living(t, set.StatefulSet, node.Name, "10.0.3.9")
	cordon(t, node.Node)
	remove(t, pod)
	pod = refused(t, set.StatefulSet)
	testenv.Eventually(t, func() error { return waitingAs(t, set.StatefulSet, metav1.ConditionTrue, pin.ReasonNodeCordoned) })
	if err := env.Client.Delete(t.Context(), state.PersistentPodState); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error { return toldOf(t, pod, pin.ReasonWaiting, "PersistentPodState web, which required it") })
}
