package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
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
			var got []string
			for _, h := range pin.Holders(tc.reservations, nodes, now) {
				got = append(got, h.Node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

// What a node shows of a pod tells whose it is, and when that life surely had it.
func TestHoldersKnowTheLife(t *testing.T) {
	attached := limpetv1alpha1.IPReservation{Status: limpetv1alpha1.IPReservationStatus{Node: "n1", PodUID: "next"}}
	attached.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	reserved := limpetv1alpha1.IPReservation{Status: limpetv1alpha1.IPReservationStatus{
		Node: "n2", PodUID: "first", Interface: "net1", RetainMinutes: 10, Until: &metav1.Time{Time: now.Add(time.Minute)}, IPs: "10.9.0.5",
	}}
	beside := *reserved.DeepCopy()
	beside.Status.Interface, beside.Status.IPs = "eth0", homeIPs
	nodes := map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node}
	want := []pin.Holder{
		{Node: "n1", UID: "next", Seen: now.Add(-time.Hour)},
		{Node: "n2", UID: "first", Seen: now.Add(-9 * time.Minute), IPs: homeIPs},
	}
	if diff := cmp.Diff(want, pin.Holders([]limpetv1alpha1.IPReservation{reserved, attached, beside}, nodes, now)); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

func TestNewerHolder(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).Recorded("web-0", "n1", home).PersistentPodState
	unseen := state.DeepCopy()
	record := state.Status.PodStates["web-0"]
	record.UID, record.FormerUIDs, record.RecordedAt = "second", []types.UID{"first"}, &metav1.Time{Time: now}
	state.Status.PodStates["web-0"] = record
	on := func(node string, uid types.UID, after time.Duration) pin.Holder {
		return pin.Holder{Node: node, UID: uid, Seen: now.Add(after)}
	}
	cases := map[string]struct {
		state   *appsv1beta1.PersistentPodState
		pod     string
		holders []pin.Holder
		want    string
	}{
		"no state": {nil, "web-0", []pin.Holder{on("n2", "third", time.Minute)}, ""},
		"no record, and no node holds a reservation": {state, "web-1", nil, ""},
		"no record": {state, "web-1", []pin.Holder{on("n2", "third", -time.Hour), on("n3", "first", 0)}, "n2"},
		"a record, and no node holds a reservation": {state, "web-0", nil, ""},
		"a later life had them elsewhere":           {state, "web-0", []pin.Holder{on("n2", "third", time.Minute)}, "n2"},
		"a later life had them elsewhere, and the recorded node keeps its own": {
			state, "web-0", []pin.Holder{on("n2", "third", time.Minute), on("n1", "second", time.Second)}, "n2",
		},
		"the pod was on the recorded node last": {
			state, "web-0", []pin.Holder{on("n1", "fourth", time.Hour), on("n2", "third", time.Minute)}, "",
		},
		"another node still keeps those of a former life":         {state, "web-0", []pin.Holder{on("n2", "unrecorded", -time.Minute)}, ""},
		"another node ended a former life late":                   {state, "web-0", []pin.Holder{on("n2", "first", time.Minute)}, ""},
		"a later life is found behind a former one":               {state, "web-0", []pin.Holder{on("n3", "first", time.Hour), on("n2", "third", time.Minute)}, "n2"},
		"the recorded life itself":                                {state, "web-0", []pin.Holder{on("n2", "second", time.Minute)}, ""},
		"at the very time of the record nothing is proven":        {state, "web-0", []pin.Holder{on("n2", "third", 0)}, ""},
		"an unknown life proves nothing":                          {state, "web-0", []pin.Holder{on("n2", "", time.Minute)}, ""},
		"a record that does not say when it was made is believed": {unseen, "web-0", []pin.Holder{on("n2", "third", time.Minute)}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.NewerHolder(tc.state, tc.pod, tc.holders); got != tc.want {
				t.Errorf("the pod was last on %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRestoreRecord(t *testing.T) {
	empty := testenv.APersistentPodState("web").Prefers(100, hostname).Requires(zone)
	behind := testenv.APersistentPodState("web").Prefers(100, hostname).Requires(zone).Recorded("web-0", "n1", home)
	annotated := behind.DeepCopy()
	annotated.Status.PodStates["web-0"] = appsv1beta1.PodState{NodeName: "n1", Annotations: map[string]string{"mine": "kept"}}
	there := map[string]string{hostname: "n2", zone: "a"}
	cases := map[string]struct {
		state *appsv1beta1.PersistentPodState
		zone  string // of node n2, which holds the addresses
		lives []pin.Holder
		want  appsv1beta1.PodState
	}{
		"nothing is recorded":                 {empty.PersistentPodState, "a", nil, appsv1beta1.PodState{NodeName: "n2", NodeTopologyLabels: there}},
		"another node is recorded":            {behind.PersistentPodState, "a", nil, appsv1beta1.PodState{NodeName: "n2", NodeTopologyLabels: there}},
		"another place is recorded, required": {behind.PersistentPodState, "b", nil, appsv1beta1.PodState{NodeName: "n1", NodeTopologyLabels: home}},
		"nothing is recorded, and the life is known": {
			empty.PersistentPodState, "a",
			[]pin.Holder{{Node: "n3", UID: "other"}, {Node: "n2", UID: "last", IPs: homeIPs}},
			appsv1beta1.PodState{NodeName: "n2", NodeTopologyLabels: there, UID: "last", IPs: homeIPs},
		},
		"what else is recorded stays": {annotated, "a", nil, appsv1beta1.PodState{
			NodeName: "n2", NodeTopologyLabels: there, Annotations: map[string]string{"mine": "kept"},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.state.DeepCopy()
			got := pin.RestoreRecord(tc.state, "web-0", testenv.ANode("n2").Labelled(zone, tc.zone).Labelled("other", "x").Node, tc.lives)
			if diff := cmp.Diff(tc.want, got.Status.PodStates["web-0"]); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.state); diff != "" {
				t.Errorf("the state was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// What a recalled pod is planned to get, by the retention policy of its state.
func TestRestoreRecordIntoARequiredPlace(t *testing.T) {
	n2 := testenv.ANode("n2").Labelled(zone, "a").Node
	held := map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: "n2", podpatch.AnnotationPlace: zone + "=a"}
	free := map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: "n2"}
	cases := map[string]struct {
		policy   appsv1beta1.RetentionPolicy
		recorded bool // on another node of the place
		want     map[string]string
	}{
		"no policy, no record":            {"", false, held},
		"WhenScaled has ended the record": {appsv1beta1.RetainWhenScaled, false, free},
		"WhenScaled, and it has not":      {appsv1beta1.RetainWhenScaled, true, held},
		"WhenDeleted, and no record":      {appsv1beta1.RetainWhenDeleted, false, held},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname).Requires(zone)
			state.Spec.PersistentPodStateRetentionPolicy = tc.policy
			if tc.recorded {
				state = state.Recorded("web-0", "n1", home)
			}
			patch := pin.Plan(pin.Input{
				Pod: testenv.APod("web-0").Pod, State: pin.RestoreRecord(state.PersistentPodState, "web-0", n2, nil), Node: n2,
				Retains: true, Holds: true, Cluster: []*corev1.Node{n2}, Now: now,
			}).Patch
			if diff := cmp.Diff(tc.want, patch.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if (len(patch.Required) > 0) != (tc.want[podpatch.AnnotationPlace] != "") {
				t.Errorf("required %v, though the annotations are %v", patch.Required, patch.Annotations)
			}
			if diff := cmp.Diff([]corev1.PreferredSchedulingTerm{preferred(100, in(hostname, "n2"))}, patch.Preferred); diff != "" {
				t.Errorf("preferred (-want +got):\n%s", diff)
			}
		})
	}
}

// The first pod after its record was lost with its PersistentPodState is compared with the
// life that the node showed when it was created; once, however often it is looked at.
func TestRecordOfARecalledPod(t *testing.T) {
	recalled := func(node string, ips ...string) testenv.Pod {
		pod := testenv.APod("web-0").On(node).Ready().At(ips...).With(appsv1beta1.AnnotationInjected, "web").
			With(pin.AnnotationNode, "n1").With(pin.AnnotationRecalled, "n1").With(pin.AnnotationFormer, "last "+homeIPs)
		pod.UID, pod.CreationTimestamp = "next", metav1.NewTime(now)
		return pod
	}
	unknown := recalled("n1", "10.0.1.5")
	delete(unknown.Annotations, pin.AnnotationFormer)
	foreign := recalled("n1", "10.0.1.5").With(pin.AnnotationFormer, "x")
	cases := map[string]struct {
		pod     testenv.Pod
		made    time.Duration // when the state was made, after the pod
		want    appsv1beta1.Outcome
		because string
		former  []types.UID
	}{
		"at home again": {recalled("n1", "10.0.1.5", "fd00:1::5"), time.Second, appsv1beta1.Kept, "", nil},
		"at home again, families in another order": {recalled("n1", "fd00:1::5", "10.0.1.5"), time.Second, appsv1beta1.Kept, "", nil},
		"at home with other addresses":             {recalled("n1", "10.0.1.6"), time.Second, appsv1beta1.Lost, pin.CauseNotHeld, nil},
		"elsewhere":                                {recalled("n2", "10.0.2.6"), time.Second, appsv1beta1.Moved, pin.CauseNodeRefused, []types.UID{"last"}},
		"of a life that is not known":              {unknown, time.Second, "", "", nil},
		"of what is no life":                       {foreign, time.Second, "", "", nil},
		"of a former PersistentPodState":           {recalled("n1", "10.0.1.5"), time.Hour, "", "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
			state.CreationTimestamp = metav1.NewTime(now.Add(tc.made))
			var rebuilds []appsv1beta1.Rebuild
			for range 2 {
				got := pin.Record(pin.RecordInput{
					State: state, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*tc.pod.Pod}, Now: now.Add(time.Minute),
					Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node},
					Retain: func(*corev1.Pod) time.Duration { return 10 * time.Minute },
				})
				state.Status, rebuilds = got.Status, append(rebuilds, got.Rebuilds...)
			}
			if tc.want == "" && len(rebuilds) > 0 || tc.want != "" && (len(rebuilds) != 1 || rebuilds[0].Outcome != tc.want || rebuilds[0].Cause != tc.because) {
				t.Errorf("rebuilds %+v, want %q because of %q", rebuilds, tc.want, tc.because)
			}
			if diff := cmp.Diff(tc.former, state.Status.PodStates["web-0"].FormerUIDs); diff != "" {
				t.Errorf("former lives (-want +got):\n%s", diff)
			}
		})
	}
}

// What the webhook recalled is told to the pod, because no other component has it any more when the
// pod is Ready.
func TestPlanTellsARecalledPodOfItsFormerLife(t *testing.T) {
	empty := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	node := testenv.ANode("n1").Node
	cases := map[string]struct{ life, want string }{
		"known": {homeIPs, "last " + homeIPs},
		"shown without the addresses that Kubernetes knows": {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := pin.RestoreRecord(empty, "web-0", node, []pin.Holder{{Node: "n1", UID: "last", IPs: tc.life}})
			got := pin.Plan(pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: node, Retains: true, Holds: true, Recalled: true})
			if got := got.Patch.Annotations[pin.AnnotationFormer]; got != tc.want {
				t.Errorf("the pod is told %q, want %q", got, tc.want)
			}
		})
	}
}
