package pin_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// A node is cordoned and its pod moves. When the node has taken pods again for the time that the
// user names, the pod is deleted so that it returns, and is told as kept when it is back.
func TestAPodIsBroughtHome(t *testing.T) {
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
	env.Patch(t, home.Node, `{"spec":{"unschedulable":null}}`)
	isHome(t, set, func(h *appsv1beta1.Home) bool { return h != nil && h.FitSince != nil })

	passing.SetTime(passing.Now().Add(5 * time.Minute))
	env.Patch(t, state, `{"metadata":{"labels":{"looked":"again"}}}`)
	env.Told(t, state, pin.ReasonReturning, "from node "+other.Name+" to node "+home.Name)
	testenv.Eventually(t, func() error {
		var pod corev1.Pod
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(away), &pod)
		if apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil {
			return nil
		}
		return fmt.Errorf("pod %s stays: %w", away.Name, err)
	})
	if err := client.IgnoreNotFound(env.Client.Delete(t.Context(), away, client.GracePeriodSeconds(0))); err != nil { // no kubelet ends it here
		t.Fatal(err)
	}
	back := running(t, set, home.Name, "10.0.1.5", pinnedTo(home.Name)...)
	isHome(t, set, func(h *appsv1beta1.Home) bool { return h == nil })
	env.Told(t, back, string(appsv1beta1.Kept), home.Name)
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
