package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestNamesakeHolds(t *testing.T) {
	record := appsv1beta1.PodState{UID: "first", NodeName: "n1", IPs: "10.0.1.5", RetainSeconds: 600}
	unasked, unread := record, record
	unasked.RetainSeconds, unread.UID = 0, ""
	other := func(uid types.UID, node, ip string) testenv.Pod {
		pod := testenv.APod("web-0").On(node).At(ip)
		pod.UID = uid
		return pod
	}
	ended := other("plain", "n1", "10.0.1.5")
	ended.Status.Phase = corev1.PodSucceeded
	cases := map[string]struct {
		record appsv1beta1.PodState
		pod    testenv.Pod
		want   bool
	}{
		"the address on the node":                    {record, other("plain", "n1", "10.0.1.5"), true},
		"another address":                            {record, other("plain", "n1", "10.0.1.6"), false},
		"the same address on another node":           {record, other("plain", "n2", "10.0.1.5"), false},
		"an address that was not reserved":           {unasked, other("plain", "n1", "10.0.1.5"), false},
		"a pod that has ended":                       {record, ended, false},
		"the recorded pod, orphaned by its workload": {record, other("first", "n1", "10.0.1.5"), false},
		"a record that does not say of which pod":    {unread, other("plain", "n1", "10.0.1.5"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.NamesakeHolds(tc.record, tc.pod.Pod); got != tc.want {
				t.Errorf("holds: %v, want %v", got, tc.want)
			}
		})
	}
}

// A namesake is told once, remembered after its end, and forgotten when the pod is Ready again or
// its record has ended.
func TestANamesakeIsRememberedUntilThePodIsBack(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	state.Status.PodStates = map[string]appsv1beta1.PodState{
		"web-0": {UID: "first", NodeName: "n1", IPs: "10.0.1.5", RetainSeconds: 600},
	}
	plain := testenv.APod("web-0").On("n1").At("10.0.1.5")
	plain.UID = "plain"
	back := testenv.APod("web-0").On("n1").At("10.0.1.6").Ready()
	back.UID = "next"
	seen := map[string]*corev1.Pod{"web-0": plain.Pod}
	taken := map[string]types.UID{"web-0": "plain"}
	steps := []struct {
		what      string
		replicas  int32
		after     time.Duration
		pods      []corev1.Pod
		namesakes map[string]*corev1.Pod
		want      map[string]types.UID
		fresh     int
		cause     string
	}{
		{"it is seen", 1, 0, nil, seen, taken, 1, ""},
		{"it is seen again", 1, time.Second, nil, seen, taken, 0, ""},
		{"it has ended", 1, time.Second, nil, nil, taken, 0, ""},
		{"the pod is back", 1, time.Second, []corev1.Pod{*back.Pod}, nil, nil, 0, pin.CauseNameTaken},
		{"the next rebuild", 1, time.Second, []corev1.Pod{*back.Pod}, nil, nil, 0, ""},
	}
	in := pin.RecordInput{
		State: state, Nodes: map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
		Retain: func(*corev1.Pod) time.Duration { return 10 * time.Minute }, Now: now,
	}
	for _, step := range steps {
		in.Workload, in.Pods, in.Namesakes, in.Now = &workload.Desired{Replicas: step.replicas}, step.pods, step.namesakes, in.Now.Add(step.after)
		got := pin.Record(in)
		if diff := cmp.Diff(step.want, got.NameTaken); diff != "" || len(got.Namesakes) != step.fresh {
			t.Errorf("%s: %d are new, want %d; known (-want +got):\n%s", step.what, len(got.Namesakes), step.fresh, diff)
		}
		cause := ""
		if len(got.Rebuilds) > 0 {
			cause = got.Rebuilds[0].Cause
		}
		if cause != step.cause {
			t.Errorf("%s: cause %q, want %q", step.what, cause, step.cause)
		}
		state.Status, in.NameTaken = got.Status, got.NameTaken
	}
	in.Workload, in.Pods, in.NameTaken = &workload.Desired{}, nil, taken
	in.Now = in.Now.Add(time.Hour)
	state.Status.PodStates["web-0"] = appsv1beta1.PodState{UID: "first", NodeName: "n1"} // scaled away, and nothing is reserved
	if got := pin.Record(in); got.NameTaken != nil {
		t.Errorf("the record has ended, and %v is remembered", got.NameTaken)
	}
}

func TestNamedLike(t *testing.T) {
	set := testenv.AStatefulSet("web", 1)
	of := func(group, name string) workload.Target {
		return workload.Target{Group: group, Kind: "StatefulSet", Name: name}
	}
	cases := map[string]struct {
		pod  testenv.Pod
		want []workload.Target
	}{
		"a plain pod":                {testenv.APod("web-1"), []workload.Target{of("apps", "web"), of("apps.kruise.io", "web")}},
		"a name of several parts":    {testenv.APod("a-b-1"), []workload.Target{of("apps", "a-b"), of("apps.kruise.io", "a-b")}},
		"a pod of the StatefulSet":   {testenv.APod("web-1").OwnedBy(set.StatefulSet), []workload.Target{of("apps.kruise.io", "web")}},
		"a pod of a ReplicaSet":      {testenv.APod("web-1").Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")), nil},
		"a name without a part more": {testenv.APod("web"), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pin.NamedLike(tc.pod.Pod)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}
