package testenv

import (
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// State reads the PersistentPodState that has the name of a workload.
func (e *Env) State(t testing.TB, of client.Object) (*appsv1beta1.PersistentPodState, error) {
	t.Helper()
	var state appsv1beta1.PersistentPodState
	return &state, e.Client.Get(t.Context(), client.ObjectKeyFromObject(of), &state)
}

// MustState reads a PersistentPodState that must exist.
func (e *Env) MustState(t testing.TB, of client.Object) *appsv1beta1.PersistentPodState {
	t.Helper()
	state, err := e.State(t, of)
	if err != nil {
		t.Fatalf("get PersistentPodState %s: %v", of.GetName(), err)
	}
	return state
}

// RecordedOn waits until exactly these pods are recorded, each on its node.
func (e *Env) RecordedOn(t testing.TB, of client.Object, want map[string]string) {
	t.Helper()
	Eventually(t, func() error {
		state, err := e.State(t, of)
		if err != nil {
			return err
		}
		got := map[string]string{}
		for pod, record := range state.Status.PodStates {
			got[pod] = record.NodeName
		}
		return diff("recorded nodes", want, got)
	})
}

// Condition waits for a condition of a PersistentPodState, with a word of its message.
func (e *Env) Condition(t testing.TB, of client.Object, kind string, status metav1.ConditionStatus, reason, word string) {
	t.Helper()
	Eventually(t, func() error { return e.HasCondition(t, of, kind, status, reason, word) })
}

// HasCondition returns an error where a PersistentPodState does not have a condition.
func (e *Env) HasCondition(t testing.TB, of client.Object, kind string, status metav1.ConditionStatus, reason, word string) error {
	t.Helper()
	state, err := e.State(t, of)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(state.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, word) {
		return fmt.Errorf("%s of %s: %+v, want %s for %s with %q", kind, of.GetName(), c, status, reason, word)
	}
	return nil
}

// Told waits for an event on an object, with a word of its note.
func (e *Env) Told(t testing.TB, on client.Object, reason, word string) {
	t.Helper()
	Eventually(t, func() error {
		var seen []string
		for _, event := range e.events(t, on) {
			if event.Reason == reason && strings.Contains(event.Note, word) {
				return nil
			}
			seen = append(seen, event.Reason+": "+event.Note)
		}
		return fmt.Errorf("events on %s %q, want %s with %q", on.GetName(), seen, reason, word)
	})
}

// ToldOnce waits for an event on an object, and wants no second one for the same reason.
func (e *Env) ToldOnce(t testing.TB, on client.Object, reason string) {
	t.Helper()
	Eventually(t, func() error {
		if n := e.CountEvents(t, on, reason); n != 1 {
			return fmt.Errorf("%d events %s on %s, want one", n, reason, on.GetName())
		}
		return nil
	})
}

// CountEvents counts the events on an object for a reason.
func (e *Env) CountEvents(t testing.TB, on client.Object, reason string) (n int) {
	t.Helper()
	for _, event := range e.events(t, on) {
		if event.Reason == reason {
			n++
		}
	}
	return n
}

func (e *Env) events(t testing.TB, on client.Object) []eventsv1.Event {
	t.Helper()
	var list eventsv1.EventList
	if err := e.Client.List(t.Context(), &list, client.InNamespace(on.GetNamespace())); err != nil {
		t.Fatalf("list events: %v", err)
	}
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.UID == on.GetUID() {
			found = append(found, event)
		}
	}
	return found
}
