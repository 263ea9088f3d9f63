package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// A pod may return to its node, and its budget keeps it. Its leader is cut off after it has noted the
// return, and the other replica goes on: it asks the budget, and deletes the pod once. The next leader
// does not delete the pod that is elsewhere all the same.
func TestAPodIsBroughtHomeOnce(t *testing.T) {
	install(t)
	first, relay := relayed(t)
	pointWebhooksAt(t, first)
	first.waitReady(t)
	takesOver(t, first)
	second, _ := relayed(t)
	second.waitReady(t)

	set, away, other := movedAway(t)
	budget := &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "web"},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			TargetReference: &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name}, MaxUnavailable: new(intstr.FromInt32(0)),
		},
	}
	env.Create(t, budget)
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(budget), budget); budget.Status.ObservedGeneration == 0 || budget.Status.CurrentAvailable != 1 {
			return fmt.Errorf("status %+v of the budget", budget.Status)
		}
		return nil
	})
	fitForLong(t, set)
	keptByItsBudget(t, first)
	homeOfPod(t, set, func(h *appsv1beta1.Home) bool { return h != nil && h.ReturningAt != nil })

	relay.Cut()
	pointWebhooksAt(t, second)
	takesOver(t, second)
	keptByItsBudget(t, second)
	if env.Read(t, client.ObjectKeyFromObject(away), away); away.DeletionTimestamp != nil {
		t.Fatal("the pod is deleted against its budget")
	}
	env.Patch(t, budget, `{"spec":{"maxUnavailable":1}}`)
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(away), away); away.DeletionTimestamp == nil {
			return errors.New("the pod is not deleted")
		}
		return nil
	})
	env.ToldOnce(t, env.MustState(t, set), pin.ReasonReturning)
	relay.Mend(t) // the former leader ends, and its process is started again
	testenv.Eventually(t, func() error {
		if !first.ended() {
			return errors.New("the former leader has not ended")
		}
		return nil
	})

	second.kill(t)                                                  // while the pod ends
	env.Patch(t, leaseOf(t), `{"spec":{"leaseDurationSeconds":1}}`) // the next one need not wait for the rest of it
	third := startReplica(t)
	pointWebhooksAt(t, third)
	third.waitReady(t)
	takesOver(t, third)
	env.Remove(t, away)
	again := scheduled(t, set, other, "10.0.2.6")
	homeOfPod(t, set, func(h *appsv1beta1.Home) bool { return h == nil })
	if env.Read(t, client.ObjectKeyFromObject(again), again); again.DeletionTimestamp != nil {
		t.Error("the pod is brought home twice")
	}
	if n := env.CountEvents(t, env.MustState(t, set), pin.ReasonReturning); n != 1 {
		t.Errorf("%d events %s, want one", n, pin.ReasonReturning)
	}
	for _, line := range linesOf(third.scrape(t), "limpet_returns_total") {
		if !strings.HasSuffix(line, " 0") {
			t.Errorf("the last leader counts %s", line)
		}
	}
}

// takesOver waits until a replica leads.
func takesOver(t *testing.T, r *replica) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if !r.leads(t) {
			return errors.New("the replica does not lead")
		}
		return nil
	})
}

// movedAway makes a pod that left its node while that was cordoned, and whose user wants it back. It
// returns its StatefulSet, the pod and the node that the pod is on.
func movedAway(t *testing.T) (testenv.StatefulSet, *corev1.Pod, string) {
	t.Helper()
	home, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
	state.Annotations = map[string]string{pin.AnnotationReturnAfter: "1m"}
	env.Create(t, set.StatefulSet, state.PersistentPodState)
	former := scheduled(t, set, home.Name, "10.0.1.5")
	env.RecordedOn(t, set, map[string]string{"web-0": home.Name})
	env.Cordon(t, home.Node)
	env.Remove(t, former)
	env.Create(t, testenv.AReservation(former, time.Now()))
	away := scheduled(t, set, other.Name, "10.0.2.5")
	homeOfPod(t, set, func(h *appsv1beta1.Home) bool { return h != nil && h.NodeName == home.Name })
	env.Patch(t, home.Node, `{"spec":{"unschedulable":null}}`)
	homeOfPod(t, set, func(h *appsv1beta1.Home) bool { return h != nil && h.FitSince != nil })
	return set, away, other.Name
}

// fitForLong moves the moment since when the home is fit into the past.
func fitForLong(t *testing.T, set testenv.StatefulSet) {
	t.Helper()
	long := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	text := fmt.Sprintf(`{"status":{"podStates":{"web-0":{"home":{"fitSince":%q}}}}}`, long)
	if err := env.Client.Status().Patch(t.Context(), env.MustState(t, set), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// keptByItsBudget waits until a leader was refused a deletion by a budget.
func keptByItsBudget(t *testing.T, leader *replica) {
	t.Helper()
	testenv.Eventually(t, func() error {
		for _, line := range linesOf(leader.scrape(t), "limpet_budget_decisions_total") {
			if strings.Contains(line, `vector="limpet"`) && strings.Contains(line, `verdict="Refused"`) {
				return nil
			}
		}
		return errors.New("no budget has refused the return")
	})
}

// homeOfPod waits for the home in the record of the first pod.
func homeOfPod(t *testing.T, set testenv.StatefulSet, wanted func(*appsv1beta1.Home) bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if home := state.Status.PodStates["web-0"].Home; err == nil && !wanted(home) {
			err = fmt.Errorf("home %+v", home)
		}
		return err
	})
}
