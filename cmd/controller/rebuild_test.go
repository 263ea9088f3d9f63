package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// judged sees a pod rebuilt three times: kept, with its address lost, and moved, each
// told by the status, an event on the pod and a metric.
func judged(t *testing.T, leader *replica) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	pod := living(t, set.StatefulSet, "n1", "10.0.1.5")
	steps := []struct {
		node, ip string
		want     appsv1beta1.Rebuilds
	}{
		{"n1", "10.0.1.5", appsv1beta1.Rebuilds{Kept: 1, Last: &appsv1beta1.Rebuild{Outcome: appsv1beta1.Kept}}},
		{"n1", "10.0.1.6", appsv1beta1.Rebuilds{Kept: 1, Lost: 1, Last: &appsv1beta1.Rebuild{Outcome: appsv1beta1.Lost, Cause: pin.CauseReclaimed}}},
		{"n2", "10.0.2.5", appsv1beta1.Rebuilds{Kept: 1, Lost: 1, Moved: 1, Last: &appsv1beta1.Rebuild{Outcome: appsv1beta1.Moved, Cause: pin.CauseNodeRefused}}},
	}
	for _, step := range steps {
		step.want.Last.Pod, step.want.Last.From = "web-0", placeOf(pod)
		if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		if step.want.Last.Outcome == appsv1beta1.Lost {
			env.Create(t, testenv.APod("other").In(ns).On("n1").At("10.0.1.5").Ready().Pod)
		}
		pod = living(t, set.StatefulSet, step.node, step.ip)
		step.want.Last.To = placeOf(pod)
		testenv.Eventually(t, func() error { return countedAs(t, ns, step.want) })
		testenv.Eventually(t, func() error { return toldOf(t, pod, string(step.want.Last.Outcome), step.node) })
		sample := fmt.Sprintf("limpet_rebuilds_total{cause=%q,outcome=%q} 1", step.want.Last.Cause, step.want.Last.Outcome)
		if text := leader.scrape(t); !strings.Contains(text, sample) {
			t.Errorf("metrics do not have %s", sample)
		}
	}
}

// living makes the set's pod and waits until its place is recorded.
func living(t *testing.T, set *appsv1.StatefulSet, node, ip string) *corev1.Pod {
	t.Helper()
	pod := scheduled(t, set, node, ip)
	testenv.Eventually(t, func() error {
		state, err := stateOf(t, set)
		if err != nil {
			return err
		}
		if got := state.Status.PodStates[pod.Name]; got.UID != pod.UID || got.NodeName != node || got.IPs != ip {
			return fmt.Errorf("record: %+v", got)
		}
		return nil
	})
	return pod
}

// scheduled makes the set's pod, and plays scheduler and kubelet for it.
func scheduled(t *testing.T, set *appsv1.StatefulSet, node, ip string) *corev1.Pod {
	t.Helper()
	pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(set).With(reservation.RetainAnnotation, "10").Pod
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if len(pod.Spec.SchedulingGates) > 0 {
			return fmt.Errorf("gates %v", pod.Spec.SchedulingGates)
		}
		return nil
	})
	bind(t, pod, node, ip)
	return pod
}

// bind puts a pod that nothing holds back on a node, where it is Ready.
func bind(t *testing.T, pod *corev1.Pod, node, ip string) {
	t.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := env.Client.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status = testenv.Pod{Pod: pod}.At(ip).Ready().Status
	if err := env.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

func placeOf(pod *corev1.Pod) appsv1beta1.Place {
	return appsv1beta1.Place{NodeName: pod.Spec.NodeName, IPs: pod.Status.PodIPs[0].IP}
}

func countedAs(t *testing.T, ns string, want appsv1beta1.Rebuilds) error {
	t.Helper()
	var state appsv1beta1.PersistentPodState
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "web"}, &state); err != nil {
		return err
	}
	got := state.Status.Rebuilds.DeepCopy()
	if got == nil {
		return fmt.Errorf("no rebuild was counted")
	}
	got.Last.Time, got.Last.Message = want.Last.Time, ""
	if diff := cmp.Diff(&want, got); diff != "" {
		return fmt.Errorf("rebuilds (-want +got):\n%s", diff)
	}
	return nil
}

func toldOf(t *testing.T, pod *corev1.Pod, reason, word string) error {
	t.Helper()
	var list eventsv1.EventList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(pod.Namespace)); err != nil {
		return err
	}
	var seen []string
	for _, e := range list.Items {
		if e.Regarding.UID == pod.UID && e.Reason == reason && strings.Contains(e.Note, word) {
			return nil
		}
		seen = append(seen, e.Regarding.Name+" "+e.Reason+" "+e.Note)
	}
	return fmt.Errorf("events %q, want %s with %q on pod %s", seen, reason, word, pod.Name)
}

func (r *replica) scrape(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
