package console_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// An event about several pods is on their workload. It is part of the history of each pod that it names.
func TestAnEventOfSeveralPodsIsInTheHistoryOfEach(t *testing.T) {
	digest := pin.Digest{Reason: pin.ReasonReturned, Namespace: "team", Notices: []pin.Notice{
		{Pod: "web-0", IPs: "10.0.1.5", Node: "n1"}, {Pod: "web-11", IPs: "10.0.1.6", Node: "n1"},
	}}
	event := func(name, by string) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Reason: pin.ReasonReturned, Message: digest.Text(), ReportingController: by,
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "team", Name: "web"},
		}
	}
	f := installed()
	f.Events = append(f.Events, event("ours", facts.Controller), event("forged", "another"))
	for pod, want := range map[string]int{"web-0": 1, "web-11": 1, "web-1": 0} {
		r, err := console.History(f, "team", pod)
		if len(r.Events) != want || (err == nil) != (want > 0) {
			t.Errorf("%s: events %+v, want %d; error %v", pod, r.Events, want, err)
		}
	}
}

// After a rollout of three, each pod has its own outcome, though the workload has one last rebuild.
func TestEachPodOfARolloutIsExplained(t *testing.T) {
	f := installed()
	state := testenv.APersistentPodState("web").In("team").Prefers(100, corev1.LabelHostname).PersistentPodState
	state.Status.Rebuilds = &appsv1beta1.Rebuilds{Kept: 2, Moved: 1, Last: &appsv1beta1.Rebuild{Pod: "web-2", Outcome: appsv1beta1.Kept}}
	state.Status.PodStates = map[string]appsv1beta1.PodState{
		"web-0": {NodeName: "n1", IPs: "10.0.1.5", Outcome: appsv1beta1.Kept},
		"web-1": {NodeName: "n2", IPs: "10.0.2.6", Outcome: appsv1beta1.Moved, Cause: pin.ReasonNodeCordoned, From: &appsv1beta1.Place{NodeName: "n1", IPs: "10.0.1.6"}},
		"web-2": {NodeName: "n1", IPs: "10.0.1.7", Outcome: appsv1beta1.Kept},
		"web-3": {NodeName: "n1", IPs: "10.0.1.8"},
	}
	f.States = []appsv1beta1.PersistentPodState{*state}
	for i := range 4 {
		name := fmt.Sprintf("web-%d", i)
		f.Pods = append(f.Pods, *testenv.APod(name).In("team").On("n1").Ready().At(state.Status.PodStates[name].IPs).Pod)
	}
	for pod, want := range map[string]string{
		"web-0": "kept: 10.0.1.5", "web-1": "moved: 10.0.1.6 → 10.0.2.6", "web-2": "kept: 10.0.1.7", "web-3": "it has 10.0.1.8; no rebuild of it is recorded",
	} {
		e, err := console.Address(f, "team", pod)
		if err != nil || e.Answer != want {
			t.Errorf("%s: %q, %v, want %q", pod, e.Answer, err, want)
		}
		if pod == "web-1" && !slices.Contains(e.Because, pin.ReasonNodeCordoned) {
			t.Errorf("because %q, want %s", e.Because, pin.ReasonNodeCordoned)
		}
	}
}

// The addresses of a pod with an owner are kept under the owner's name.
func TestAPodOfAnOwnerIsExplained(t *testing.T) {
	f := installed()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	pod := testenv.APod("web-1").Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).On("n1").Ready().At("10.0.1.5").
		With(reservation.KeepAnnotation, "10m").With(reservation.OwnerAnnotation, "apps/Deployment/web/db").Pod
	shown := testenv.AReservation(pod, now)
	shown.Status.Pod = "apps/Deployment/web/db"
	f.Pods, f.Reservations = append(f.Pods, *pod), append(f.Reservations, *shown)
	e, err := console.Address(f, "team", "web-1")
	if want := []string{"node n1 holds 10.0.1.5 in network net (Reserved)", "the pod asks for a reservation of 10m0s"}; err != nil || !slices.Equal(e.Because, want) {
		t.Errorf("because %q, %v, want %q", e.Because, err, want)
	}
}
