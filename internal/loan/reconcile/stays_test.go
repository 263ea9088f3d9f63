package reconcile_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/loan/reconcile"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAnAddressThatCannotFollow tells a pod once why it does not, and says nothing to one whose address follows, or that was not
// seen behind the gate.
func TestAnAddressThatCannotFollow(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	mgr, lender := newLender(t, at)
	env.Start(t, mgr)
	look := func(pod *corev1.Pod) {
		t.Helper()
		env.Known(t, cached, &corev1.NodeList{}, &corev1.PodList{}, &limpetv1alpha1.IPReservationList{})
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
	}
	starts := func(network string, minutes int32, gated bool, how string) *corev1.Pod {
		t.Helper()
		s := newScene(t)
		pod := s.waiting(t)
		if gated {
			look(pod)
			opened(t, pod)
		} else {
			env.Change(t, pod, func() { pod.Spec.SchedulingGates = nil })
		}
		bind(t, pod, s.home)
		look(pod)
		shown := func() {
			r := s.shownOn(t, s.home, network)
			env.Change(t, r, func() {
				r.Status.State, r.Status.Until, r.Status.RetainMinutes = limpetv1alpha1.IPAttached, nil, minutes
			})
		}
		if network != "" && how != "late" {
			shown()
		}
		if how == "a second interface" {
			r := s.keeps(t, "web-0", 6)
			env.Change(t, r, func() {
				r.Status.Network, r.Status.Interface, r.Status.RetainMinutes = "lan", "net1", 1440
			})
		}
		env.Read(t, client.ObjectKeyFromObject(pod), pod)
		pod.Status.PodIP, pod.Status.PodIPs = s.ip, []corev1.PodIP{{IP: s.ip}}
		if err := env.Client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			if look(pod); n == 1 && how == "late" {
				shown()
			}
			at.SetTime(at.Now().Add(time.Minute))
		}
		return pod
	}
	quiet := []*corev1.Pod{starts(reservation.FollowNetwork, int32(reservation.Forever.Minutes()), true, ""), starts("lan", 1440, false, "")}
	quiet = append(quiet, starts(reservation.FollowNetwork, int32(reservation.Forever.Minutes()), true, "a second interface"), starts(reservation.FollowNetwork, int32(reservation.Forever.Minutes()), true, "late"))
	for network, why := range map[string]string{"lan": "network lan of node", "": "is not known"} {
		pod := starts(network, 1440, true, "")
		env.Told(t, pod, controller.ReasonStays, why)
		env.ToldOnce(t, pod, controller.ReasonStays)
	}
	for _, pod := range quiet {
		if n := env.CountEvents(t, pod, controller.ReasonStays); n > 0 {
			t.Errorf("%d events of %s", n, pod.Namespace)
		}
	}
}
