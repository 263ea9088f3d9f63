package reconcile_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// manualClock is a clock that the test sets. Its first timer says that the aggregator has begun.
type manualClock struct {
	clock.RealClock
	*clocktesting.FakePassiveClock
	begun func()
}

func (c manualClock) Now() time.Time                  { return c.FakePassiveClock.Now() }
func (c manualClock) Since(t time.Time) time.Duration { return c.FakePassiveClock.Since(t) }
func (c manualClock) After(d time.Duration) <-chan time.Time {
	c.begun()
	return c.RealClock.After(d / 10)
}

// telling is a manager whose aggregator has begun, and whose time the test sets.
type telling struct {
	*manager
	at *clocktesting.FakePassiveClock
}

func startTelling(t *testing.T) telling {
	t.Helper()
	m, _ := leadTelling(t)
	return m
}

// leadTelling is like startTelling, with a function that ends this leader.
func leadTelling(t *testing.T) (m telling, stop func()) {
	t.Helper()
	begun := make(chan struct{})
	m = telling{newManager(t), clocktesting.NewFakePassiveClock(time.Now())}
	m.aggregator.Clock, m.aggregator.Pace = manualClock{FakePassiveClock: m.at, begun: sync.OnceFunc(func() { close(begun) })}, pin.UsualPace
	stop = m.start(t, m.recorder())
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("the aggregator has not begun")
	}
	return m, stop
}

// waiting waits until so many notices wait.
func (m telling) waiting(t *testing.T, want int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got := m.aggregator.Waiting(); got != want {
			return fmt.Errorf("%d notices wait, want %d", got, want)
		}
		return nil
	})
}

func (m telling) pass(d time.Duration) { m.at.SetTime(m.at.Now().Add(d)) }

// podsOf makes running pods of a StatefulSet on a node.
func podsOf(t *testing.T, set testenv.StatefulSet, node string, n int) (pods []*corev1.Pod) {
	t.Helper()
	for i := range n {
		pod := testenv.APod(fmt.Sprint(set.Name, "-", i)).In(set.Namespace).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").
			On(node).At(fmt.Sprint("10.0.1.", 5+i)).Ready().Pod
		env.Create(t, pod)
		pods = append(pods, pod)
	}
	testenv.Eventually(t, func() error {
		for _, pod := range pods {
			if got := env.MustState(t, set).Status.PodStates[pod.Name]; got.UID != pod.UID {
				return fmt.Errorf("record of %s: %+v", pod.Name, got)
			}
		}
		return nil
	})
	return pods
}

// Three pods of a StatefulSet come back together: one event on the StatefulSet names them, and the pods
// have none. A pod that comes back alone has its own.
func TestPodsThatReturnTogetherHaveOneEvent(t *testing.T) {
	home, set := env.Node(t), preferring(t)
	m := startTelling(t)
	again := func(n, returned int) []*corev1.Pod {
		pods := podsOf(t, set, home.Name, n)
		m.waiting(t, returned)
		m.pass(pin.UsualPace.Between + pin.UsualPace.Returned)
		m.waiting(t, 0)
		return pods
	}
	remove := func(pods []*corev1.Pod) {
		for _, pod := range pods {
			env.Remove(t, pod)
		}
	}
	pods := again(3, 0)
	remove(pods)
	pods = again(3, 3)
	env.Told(t, set.StatefulSet, pin.ReasonReturned, "3 pods are Ready again in their places: web-")
	remove(pods[:1])
	alone := podsOf(t, set, home.Name, 1)[0]
	m.waiting(t, 1)
	m.pass(pin.UsualPace.Between + pin.UsualPace.Returned)
	env.Told(t, alone, string(appsv1beta1.Kept), home.Name)
	env.ToldOnce(t, set.StatefulSet, pin.ReasonReturned)
	for _, pod := range pods {
		if n := env.CountEvents(t, pod, string(appsv1beta1.Kept)); n != 0 {
			t.Errorf("pod %s has %d events", pod.Name, n)
		}
	}
}

// held makes what an agent shows of a running pod.
func held(t *testing.T, pod *corev1.Pod) *limpetv1alpha1.IPReservation {
	t.Helper()
	r := testenv.AReservation(pod, time.Now())
	r.Status.State, r.Status.Until = limpetv1alpha1.IPAttached, nil
	env.Create(t, r)
	return r
}

// reserve shows that the pod of a reservation has ended.
func reserve(t *testing.T, r *limpetv1alpha1.IPReservation, until time.Time) {
	t.Helper()
	env.Patch(t, r, `{"status":{"state":"Reserved","until":"`+until.UTC().Format(time.RFC3339)+`"}}`)
}

// The life of reservations: reserved, over, and given to another pod. A pod that is back after some
// seconds is not told as reserved. Neither is what a controller finds when it starts, nor an object that the
// Node in it does not own.
func TestTheLifeOfAReservationIsTold(t *testing.T) {
	home, set := env.Node(t), preferring(t)
	pods := make([]*corev1.Pod, 5)
	shown := make([]*limpetv1alpha1.IPReservation, len(pods))
	for i := range pods {
		pods[i] = testenv.APod(fmt.Sprint("web-", i)).In(set.Namespace).On(home.Name).At(fmt.Sprint("10.0.1.", 5+i)).Pod
		pods[i].UID = "ended"
		shown[i] = held(t, pods[i])
	}
	reserve(t, shown[4], time.Now().Add(time.Hour)) // before the controller starts
	forged := testenv.AReservation(testenv.APod("web-5").In(set.Namespace).On(home.Name).At("10.0.1.10").Pod, time.Now())
	forged.OwnerReferences, forged.Status.State, forged.Status.Until = []metav1.OwnerReference{}, limpetv1alpha1.IPAttached, nil
	env.Create(t, forged)
	m := startTelling(t)

	reserve(t, forged, time.Now())
	for i := range 4 {
		reserve(t, shown[i], m.at.Now().Add(time.Minute+time.Duration(i)*time.Hour))
	}
	m.waiting(t, 5)
	env.Patch(t, shown[3], `{"status":{"state":"Attached","until":null,"podUID":"next"}}`)
	testenv.Eventually(t, func() error {
		var r limpetv1alpha1.IPReservation
		err := m.GetClient().Get(t.Context(), client.ObjectKeyFromObject(shown[3]), &r)
		if err == nil && r.Status.Until != nil {
			err = fmt.Errorf("the cache shows web-3 as reserved")
		}
		return err
	})
	m.pass(pin.UsualPace.Reserved)
	env.Told(t, set.StatefulSet, pin.ReasonReserved, "3 pods have ended, and their addresses stay reserved for them")
	m.waiting(t, 0)

	m.pass(90 * time.Second) // now the first is over
	env.Remove(t, forged)
	env.Remove(t, shown[0])
	other := testenv.APod("other").In(set.Namespace).On(home.Name).At("10.0.1.6").Ready().Pod
	next := testenv.APod("next").In(set.Namespace).On(home.Name).At("10.0.1.7").Ready().Pod
	env.Create(t, other, next)
	env.Read(t, client.ObjectKeyFromObject(shown[2]), shown[2])
	env.Patch(t, shown[2], fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, limpetv1alpha1.LabelRelease, shown[2].Status.Releases()))
	env.Remove(t, shown[1]) // 10.0.1.6 is given to another pod
	env.Remove(t, shown[2]) // its user gave 10.0.1.7 up
	m.waiting(t, 3)
	cachedAt(t, m, other)
	cachedAt(t, m, next)
	m.pass(pin.UsualPace.Ended)
	env.Told(t, set.StatefulSet, pin.ReasonExpired, "the reservation of 10.0.1.5 on node "+home.Name+" for pod web-0 has ended")
	env.Told(t, set.StatefulSet, pin.ReasonReclaimed, "pod other got 10.0.1.6")
	env.Told(t, set.StatefulSet, pin.ReasonGivenUp, "a user gave up 10.0.1.7 on node "+home.Name+", which was reserved for pod web-2 until ")
	m.waiting(t, 0)
	for _, reason := range []string{pin.ReasonReserved, pin.ReasonExpired, pin.ReasonGivenUp, pin.ReasonReclaimed} {
		env.ToldOnce(t, set.StatefulSet, reason)
	}
}

// cachedAt waits until the cache shows the addresses of a pod.
func cachedAt(t *testing.T, m telling, pod *corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var now corev1.Pod
		err := m.GetClient().Get(t.Context(), client.ObjectKeyFromObject(pod), &now)
		if err == nil && len(now.Status.PodIPs) == 0 {
			err = fmt.Errorf("pod %s has no address in the cache", pod.Name)
		}
		return err
	})
}

// Two pods of a node have one address, for which the agent shows a reservation. The event is on the pod
// that asks for its address, and does not name a pod of another namespace. Pods that ask for nothing, as
// those of the host's network, have none.
func TestTwoPodsWithOneAddressAreTold(t *testing.T) {
	home, ns := env.Node(t), env.Namespace(t)
	asks := testenv.APod("db-0").In(ns).On(home.Name).At("10.0.1.5").With(reservation.RetainAnnotation, "10").Ready().Pod
	env.Create(t, asks)
	held(t, asks)
	m := startTelling(t)
	plain := testenv.APod("payroll").In(env.Namespace(t)).On(home.Name).At("10.0.1.5").Ready().Pod
	host := testenv.APod("agent").In(ns).On(home.Name).At("192.0.2.1").Ready().Pod
	second := testenv.APod("proxy").In(ns).On(home.Name).At("192.0.2.1").Ready().Pod
	env.Create(t, host, second, plain)
	m.waiting(t, 1)
	cachedAt(t, m, host)
	cachedAt(t, m, second)
	m.pass(pin.UsualPace.Conflict)
	env.Told(t, asks, pin.ReasonConflict, "pod db-0 and a pod of another namespace both have 10.0.1.5 on node "+home.Name)
	for _, pod := range []*corev1.Pod{plain, host, second} {
		if n := env.CountEvents(t, pod, pin.ReasonConflict); n != 0 {
			t.Errorf("pod %s has %d events", pod.Name, n)
		}
	}
}

// The leader that saw a conflict ends before it tells. The next leader sees what lasts, and tells it. A conflict that
// has ended in between is not told, nor are pods that ask for nothing.
func TestTheNextLeaderTellsAConflict(t *testing.T) {
	home, ns := env.Node(t), env.Namespace(t)
	var asking []*corev1.Pod
	for i := range 3 {
		pod := testenv.APod(fmt.Sprint("db-", i)).In(ns).On(home.Name).At(fmt.Sprint("10.0.1.", 5+i)).With(reservation.RetainAnnotation, "10").Ready().Pod
		env.Create(t, pod)
		held(t, pod)
		asking = append(asking, pod)
	}
	_, stop := leadTelling(t)
	second := testenv.APod("second").In(ns).On(home.Name).At("10.0.1.5").Ready().Pod
	brief := testenv.APod("brief").In(ns).On(home.Name).At("10.0.1.6").Ready().Pod
	env.Create(t, second, brief)
	stop()
	env.Remove(t, brief)

	m := startTelling(t)
	m.waiting(t, 1)
	m.pass(pin.UsualPace.Conflict)
	env.Told(t, asking[0], pin.ReasonConflict, "pod db-0 and pod second both have 10.0.1.5 on node "+home.Name)
	m.waiting(t, 0)
	for _, pod := range []*corev1.Pod{asking[1], asking[2], second} {
		if n := env.CountEvents(t, pod, pin.ReasonConflict); n != 0 {
			t.Errorf("pod %s has %d events", pod.Name, n)
		}
	}
	env.ToldOnce(t, asking[0], pin.ReasonConflict)
}
