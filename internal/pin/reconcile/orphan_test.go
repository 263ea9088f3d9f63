package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// stepped is a recorder that reconciles when its test asks, by a clock of the test.
type stepped struct {
	*controller.Recorder
	at   *clocktesting.FakePassiveClock
	told *events.FakeRecorder
}

func newStepped(t *testing.T) stepped {
	t.Helper()
	cached := env.RunCache(t, cluster.CacheOptions(controller.Needs()), func(c client.FieldIndexer) error {
		return cluster.AddIndexes(t.Context(), c, controller.Needs())
	})
	c, err := client.New(env.AsController(t), client.Options{
		Scheme: env.Scheme, Mapper: env.Client.RESTMapper(), Cache: &client.CacheOptions{Reader: cached},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := stepped{at: clocktesting.NewFakePassiveClock(time.Now()), told: events.NewFakeRecorder(100)}
	s.Recorder = &controller.Recorder{
		Client: c, Workloads: &workloads.Reader{Registry: workloads.NewRegistry(), Cached: c}, MaxReservation: time.Hour, Clock: s.at,
		Events: s.told, Metrics: controller.NewMetrics(prometheus.NewRegistry()), Evictor: &evict.Evictor{Client: c},
	}
	return s
}

// reconcile looks at a StatefulSet's PersistentPodState once, and says when to look again. It looks again
// while the cache is behind, as the controller does after a conflict.
func (s stepped) reconcile(t *testing.T, set testenv.StatefulSet) (again time.Duration) {
	t.Helper()
	testenv.Eventually(t, func() error {
		result, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil && !cluster.Conflict(err) {
			t.Fatal(err)
		}
		again = result.RequeueAfter
		return err
	})
	return again
}

func (s stepped) wait(d time.Duration) { s.at.SetTime(s.at.Now().Add(d)) }

// A pod waits for a place whose PersistentPodState is deleted. The pod waits one more
// minute, in which the PersistentPodState may be created again.
func TestAPodOutlivesThePersistentPodStateThatMadeItWait(t *testing.T) {
	cases := map[string]bool{"and created again": true, "for good": false}
	for name, again := range cases {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
			env.Create(t, set.StatefulSet)
			pod := heldTo(t, set, "gone", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
			r := newStepped(t)
			if after := r.reconcile(t, set); after != time.Minute {
				t.Errorf("looks again after %s, want a minute", after)
			}
			if said := heard(r.told); len(said) != 1 || !strings.Contains(said[0], pin.ReasonWaiting) {
				t.Errorf("events %q, want one that tells of the wait", said)
			}
			r.wait(59 * time.Second)
			if after := r.reconcile(t, set); after != time.Second {
				t.Errorf("looks again after %s, want a second", after)
			}
			if again {
				env.Create(t, testenv.APersistentPodState("web").In(set.Namespace).Requires(hostname).PersistentPodState)
				testenv.Eventually(t, func() error { // until the cache shows it
					r.reconcile(t, set)
					return waitsFor(t, set, pin.ReasonNodeGone)
				})
			}
			r.wait(time.Second)
			r.reconcile(t, set)
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
			if again && err != nil || !again && !apierrors.IsNotFound(err) {
				t.Errorf("get pod: %v, with its PersistentPodState created again: %v", err, again)
			}
			if said := strings.Join(heard(r.told), "\n"); strings.Contains(said, pin.ReasonReleased) == again {
				t.Errorf("events:\n%s", said)
			}
		})
	}
}

func waitsFor(t *testing.T, set testenv.StatefulSet, reason string) error {
	t.Helper()
	return env.HasCondition(t, set, appsv1beta1.ConditionWaiting, metav1.ConditionTrue, reason, "")
}

// A pod waits for a node that a constraint of the pod forbids. The minute of the constraint
// begins when the constraint becomes the reason. Each reason is reported once.
func TestAConstraintIsGivenAMinuteOfItsOwn(t *testing.T) {
	node := env.Node(t)
	set, _ := requiring(t)
	var nodes corev1.NodeList
	if err := env.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	n := len(nodes.Items)
	pod := heldTo(t, set, node.Name, fmt.Sprintf("0/%d nodes are available: %d Insufficient cpu.", n, n))
	r := newStepped(t)
	look := func(after time.Duration, reason string, events int) {
		t.Helper()
		r.wait(after)
		var said []string
		testenv.Eventually(t, func() error { // until the cache shows what was done
			r.reconcile(t, set)
			said = append(said, heard(r.told)...)
			return waitsFor(t, set, reason)
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
	r.wait(time.Second)
	testenv.Eventually(t, func() error {
		r.reconcile(t, set)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get pod: %w, want it released", err)
		}
		return nil
	})
}

// A pod that asks for no address is created while no webhook answers, and starts away from
// its required place. The controller reports that afterwards.
func TestAPodThatNothingHeldToItsPlaceIsTold(t *testing.T) {
	home, elsewhere := env.Node(t), env.Node(t)
	set, _ := requiring(t)
	pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).On(home.Name).At("10.0.3.5").Ready().Pod
	env.Create(t, pod)
	r := newStepped(t)
	recorded := func(node string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			r.reconcile(t, set)
			state, err := env.State(t, set)
			if got := state.Status.PodStates["web-0"].NodeName; err == nil && got != node {
				err = fmt.Errorf("recorded on %q, want %s", got, node)
			}
			return err
		})
	}
	recorded(home.Name)
	env.Remove(t, pod)
	env.Cordon(t, home.Node)
	env.Create(t, testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).On(elsewhere.Name).At("10.0.4.5").Ready().Pod)
	recorded(elsewhere.Name)
	said := strings.Join(heard(r.told), "\n")
	for _, word := range []string{string(appsv1beta1.Moved), pin.CauseNotPinned, home.Name} {
		if !strings.Contains(said, word) {
			t.Errorf("events %q do not name %s", said, word)
		}
	}
	if state := env.MustState(t, set); state.Status.Rebuilds.Last.Cause != pin.CauseNotPinned {
		t.Errorf("status %+v, want the cause %s", state.Status.Rebuilds, pin.CauseNotPinned)
	}
}
