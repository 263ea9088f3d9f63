package pin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TestWhatAUserGaveUpIsNotLost records marks of reservations, and judges the pod that returns with another address.
func TestWhatAUserGaveUpIsNotLost(t *testing.T) {
	mark := pin.GivenUp{Pod: "web-0", UID: "first", Node: "n1", IPs: "10.0.1.5"}
	with := func(change func(*pin.GivenUp)) []pin.GivenUp {
		g := mark
		change(&g)
		return []pin.GivenUp{g}
	}
	for name, tc := range map[string]struct {
		given []pin.GivenUp
		want  appsv1beta1.Outcome
	}{
		"nothing was given up":           {nil, appsv1beta1.Lost},
		"the reservation":                {[]pin.GivenUp{mark}, appsv1beta1.Kept},
		"with addresses of two kinds":    {with(func(g *pin.GivenUp) { g.IPs = "fd00::5,10.0.1.5" }), appsv1beta1.Kept},
		"another interface, and then it": {append(with(func(g *pin.GivenUp) { g.IPs = "192.168.7.5" }), mark), appsv1beta1.Kept},
		"of another interface":           {with(func(g *pin.GivenUp) { g.IPs = "192.168.7.5" }), appsv1beta1.Lost},
		"without addresses":              {with(func(g *pin.GivenUp) { g.IPs = "" }), appsv1beta1.Lost},
		"of another life":                {with(func(g *pin.GivenUp) { g.UID = "earlier" }), appsv1beta1.Lost},
		"of a life that is not known":    {with(func(g *pin.GivenUp) { g.UID = "" }), appsv1beta1.Lost},
		"on another node":                {with(func(g *pin.GivenUp) { g.Node = "n2" }), appsv1beta1.Lost},
		"of another pod":                 {with(func(g *pin.GivenUp) { g.Pod = "web-1" }), appsv1beta1.Lost},
	} {
		judge := func(t *testing.T, late bool) { // whether the cache shows the pod after its mark
			state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
			in := pin.RecordInput{
				State: state, Workload: &workload.Desired{Replicas: 1}, Now: now, Pods: []corev1.Pod{*life("first", "n1", "10.0.1.5").Pod},
				Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
				Retain: func(*corev1.Pod) time.Duration { return 10 * time.Minute },
			}
			state.Status = pin.Record(in).Status
			in.GivenUp = tc.given
			if late {
				state.Status, in.GivenUp = pin.Record(in).Status, nil
			}
			in.Pods, in.Now = nil, now.Add(time.Minute)
			state.Status = pin.Record(in).Status
			// Another leader decides from here on: it knows the records alone.
			in.Pods, in.GivenUp, in.Now = []corev1.Pod{*life("next", "n1", "10.0.1.9").Pod}, nil, now.Add(2*time.Minute)
			got := pin.Record(in)
			if len(got.Rebuilds) != 1 || got.Rebuilds[0].Outcome != tc.want || (got.Rebuilds[0].Cause != "") != (tc.want == appsv1beta1.Lost) {
				t.Errorf("rebuilds %+v, want one %s", got.Rebuilds, tc.want)
			}
			if r := got.Status.PodStates["web-0"]; r.GivenUpUID != "" {
				t.Errorf("the next life is recorded as given up: %+v", r)
			}
		}
		t.Run(name, func(t *testing.T) { judge(t, false) })
		t.Run(name+", while the cache shows the pod", func(t *testing.T) { judge(t, true) })
	}
}

// TestAnEarlierLifeThatWasGivenUp judges records in which an earlier version of the controller left the mark, and pods
// that come back elsewhere.
func TestAnEarlierLifeThatWasGivenUp(t *testing.T) {
	in := pin.RebuildInput{
		Before: appsv1beta1.PodState{UID: "first", GivenUpUID: "first", NodeName: "n1", IPs: "10.0.1.5", RetainSeconds: 600},
		Pod:    life("next", "n1", "10.0.1.9").Pod, Node: testenv.ANode("n1").Node, Now: now,
	}
	if got := pin.Judge(in); got.Outcome != appsv1beta1.Kept || got.Message != "the node is the same; a user gave the address up" {
		t.Errorf("the same life: %+v", got)
	}
	in.Before.GivenUpUID = "earlier"
	if got := pin.Judge(in); got.Outcome != appsv1beta1.Lost {
		t.Errorf("an earlier life: %+v", got)
	}
	in.Before.GivenUpUID, in.Pod = "first", life("next", "n2", "10.0.2.9").Pod
	if got := pin.Judge(in); got.Outcome != appsv1beta1.Moved {
		t.Errorf("on another node: %+v; the place was not given up", got)
	}
}
