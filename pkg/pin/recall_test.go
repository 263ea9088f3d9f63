package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/pin"
)

func TestHolders(t *testing.T) {
	attached := func(node string) limpetv1alpha1.IPReservation {
		return limpetv1alpha1.IPReservation{Status: limpetv1alpha1.IPReservationStatus{Node: node, Pod: "web-0"}}
	}
	reserved := func(node string, left time.Duration) limpetv1alpha1.IPReservation {
		r := attached(node)
		r.Status.Until = &metav1.Time{Time: now.Add(left)}
		return r
	}
	nodes := map[string]*corev1.Node{"down": testenv.ANode("down").NotReady().Node}
	for _, name := range []string{"n1", "n2", "n3"} {
		nodes[name] = testenv.ANode(name).Node
	}
	cases := map[string]struct {
		reservations []limpetv1alpha1.IPReservation
		want         []string
	}{
		"nothing is held":                           {nil, nil},
		"one node holds them":                       {[]limpetv1alpha1.IPReservation{reserved("n1", time.Minute)}, []string{"n1"}},
		"two networks of one node":                  {[]limpetv1alpha1.IPReservation{attached("n1"), attached("n1")}, []string{"n1"}},
		"a reservation that is over holds nothing":  {[]limpetv1alpha1.IPReservation{reserved("n1", 0)}, nil},
		"the later reservation counts":              {[]limpetv1alpha1.IPReservation{reserved("n1", time.Minute), reserved("n2", time.Hour), reserved("n3", time.Second)}, []string{"n2", "n1", "n3"}},
		"an attachment counts before a reservation": {[]limpetv1alpha1.IPReservation{reserved("n1", time.Hour), attached("n2"), reserved("n3", 2*time.Hour)}, []string{"n2", "n3", "n1"}},
		"a node that is down says what was once":    {[]limpetv1alpha1.IPReservation{attached("down"), reserved("gone", time.Hour), reserved("n1", time.Minute)}, []string{"n1", "down", "gone"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pin.Holders(tc.reservations, nodes, now)); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoubtful(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).Recorded("web-0", "n1", home).PersistentPodState
	cases := map[string]struct {
		state   *appsv1beta1.PersistentPodState
		pod     string
		holders []string
		want    bool
	}{
		"no state":                           {nil, "web-0", nil, true},
		"no record":                          {state, "web-1", nil, true},
		"a record, and nobody holds a thing": {state, "web-0", nil, false},
		"the recorded node holds them too":   {state, "web-0", []string{"n2", "n1"}, false},
		"another node holds them":            {state, "web-0", []string{"n2"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.Doubtful(tc.state, tc.pod, tc.holders); got != tc.want {
				t.Errorf("doubtful %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRecall(t *testing.T) {
	empty := testenv.APersistentPodState("web").Prefers(100, hostname).Requires(zone)
	behind := testenv.APersistentPodState("web").Prefers(100, hostname).Requires(zone).Recorded("web-0", "n1", home)
	annotated := behind.DeepCopy()
	annotated.Status.PodStates["web-0"] = appsv1beta1.PodState{NodeName: "n1", Annotations: map[string]string{"mine": "kept"}}
	there := map[string]string{hostname: "n2", zone: "a"}
	cases := map[string]struct {
		state *appsv1beta1.PersistentPodState
		zone  string // of node n2, which holds the addresses
		want  appsv1beta1.PodState
	}{
		"nothing is recorded":                 {empty.PersistentPodState, "a", appsv1beta1.PodState{NodeName: "n2", NodeTopologyLabels: there}},
		"another node is recorded":            {behind.PersistentPodState, "a", appsv1beta1.PodState{NodeName: "n2", NodeTopologyLabels: there}},
		"another place is recorded, required": {behind.PersistentPodState, "b", appsv1beta1.PodState{NodeName: "n1", NodeTopologyLabels: home}},
		"what else is recorded stays": {annotated, "a", appsv1beta1.PodState{
			NodeName: "n2", NodeTopologyLabels: there, Annotations: map[string]string{"mine": "kept"},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.state.DeepCopy()
			got := pin.Recall(tc.state, "web-0", testenv.ANode("n2").Labelled(zone, tc.zone).Labelled("other", "x").Node)
			if diff := cmp.Diff(tc.want, got.Status.PodStates["web-0"]); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.state); diff != "" {
				t.Errorf("the state was changed (-before +after):\n%s", diff)
			}
		})
	}
}
