package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestRecord(t *testing.T) {
	recorded := func(retain int32, names ...string) *appsv1beta1.PersistentPodState {
		s := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
		s.Status.PodStates = map[string]appsv1beta1.PodState{}
		for _, name := range names {
			s.Status.PodStates[name] = appsv1beta1.PodState{
				NodeName: "n1", NodeTopologyLabels: map[string]string{hostname: "n1"}, RetainSeconds: retain,
			}
		}
		return s
	}
	whenDeleted, whenScaled := recorded(60, "web-0", "web-1"), recorded(60, "web-0", "web-1")
	whenScaled.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenScaled
	whenDeleted.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainWhenDeleted
	expiring := recorded(60, "web-0")
	expired := expiring.Status.PodStates["web-0"]
	expired.ExpiresAt = &metav1.Time{Time: now}
	expiring.Status.PodStates["web-0"] = expired
	pod := func(name, node string) testenv.Pod { return testenv.APod(name).On(node) }
	leaving := pod("web-1", "n1").Ready()
	leaving.DeletionTimestamp = &metav1.Time{Time: now}

	cases := map[string]struct {
		state     *appsv1beta1.PersistentPodState
		older     string
		workload  *workload.Desired
		pods      []corev1.Pod
		want      map[string]string // pod → node
		wantAgain time.Duration
	}{
		"a Ready pod is recorded": {
			state: recorded(0), workload: &workload.Desired{Replicas: 1}, pods: []corev1.Pod{*pod("web-0", "n2").Ready().Pod},
			want: map[string]string{"web-0": "n2"},
		},
		"a pod that is Ready elsewhere is recorded there": {
			state: recorded(0, "web-0"), workload: &workload.Desired{Replicas: 1}, pods: []corev1.Pod{*pod("web-0", "n2").Ready().Pod},
			want: map[string]string{"web-0": "n2"},
		},
		"a pod that is not Ready keeps its record": {
			state: recorded(0, "web-0"), workload: &workload.Desired{Replicas: 1}, pods: []corev1.Pod{*pod("web-0", "n2").Pod},
			want: map[string]string{"web-0": "n1"},
		},
		"a pod on an unknown node keeps its record": {
			state: recorded(0, "web-0"), workload: &workload.Desired{Replicas: 1}, pods: []corev1.Pod{*pod("web-0", "gone").Ready().Pod},
			want: map[string]string{"web-0": "n1"},
		},
		"a pod that is away keeps its record": {
			state: recorded(0, "web-0"), workload: &workload.Desired{Replicas: 1},
			want: map[string]string{"web-0": "n1"},
		},
		"an ordinal that is scaled away loses its record": {
			state: recorded(0, "web-0", "web-1"), workload: &workload.Desired{Replicas: 1}, pods: []corev1.Pod{*leaving.Pod},
			want: map[string]string{"web-0": "n1"},
		},
		"an ordinal that is scaled away keeps its record while its pod lives": {
			state: recorded(0, "web-1"), workload: &workload.Desired{}, pods: []corev1.Pod{*pod("web-1", "n1").Pod},
			want: map[string]string{"web-1": "n1"},
		},
		"an ordinal that is scaled away keeps its record while its address may be reserved": {
			state: recorded(60, "web-0"), workload: &workload.Desired{},
			want: map[string]string{"web-0": "n1"}, wantAgain: time.Minute,
		},
		"a record ends at its time": {
			state: expiring, workload: &workload.Desired{}, want: map[string]string{},
		},
		"a record that is wanted again does not end": {
			state: expiring, workload: &workload.Desired{Replicas: 1}, want: map[string]string{"web-0": "n1"},
		},
		"with WhenDeleted scaling ends nothing": {
			state: whenDeleted, workload: &workload.Desired{}, want: map[string]string{"web-0": "n1", "web-1": "n1"},
		},
		"with WhenDeleted the end of the workload ends all": {
			state: whenDeleted, want: map[string]string{},
		},
		"with WhenScaled an ordinal that is scaled away ends at once, whatever is reserved": {
			state: whenScaled, workload: &workload.Desired{Replicas: 1}, want: map[string]string{"web-0": "n1"},
		},
		"with WhenScaled an ordinal that is scaled away keeps its record while its pod lives": {
			state: whenScaled, workload: &workload.Desired{}, pods: []corev1.Pod{*pod("web-1", "n1").Pod},
			want: map[string]string{"web-1": "n1"},
		},
		"with WhenScaled the end of the workload ends all": {
			state: whenScaled, want: map[string]string{},
		},
		"ordinals begin where the workload says": {
			state: recorded(0, "web-0", "web-4", "web-5", "web-6"), workload: &workload.Desired{Replicas: 2, Start: 5},
			want: map[string]string{"web-5": "n1", "web-6": "n1"},
		},
		"reserved ordinals are skipped": {
			state:    recorded(0, "web-0", "web-1", "web-2", "web-3"),
			workload: &workload.Desired{Replicas: 2, Reserved: []workload.Span{{First: 1, Last: 1}}},
			want:     map[string]string{"web-0": "n1", "web-2": "n1"},
		},
		"two reserved ordinals in a row move later ones up by two": {
			state:    recorded(0, "web-0", "web-1", "web-2", "web-3", "web-4"),
			workload: &workload.Desired{Replicas: 2, Reserved: []workload.Span{{First: 1, Last: 2}, {First: 9, Last: 9}}},
			want:     map[string]string{"web-0": "n1", "web-3": "n1"},
		},
		"a name without an ordinal is kept": {
			state: recorded(0, "web-x"), workload: &workload.Desired{}, want: map[string]string{"web-x": "n1"},
		},
		"a pod that is numbered from 1 is kept over its rebuild": {
			state: recorded(0, "pg-1", "pg-2", "pg-3"), workload: &workload.Desired{AnyName: true, Replicas: 3},
			pods: []corev1.Pod{*pod("pg-1", "n1").Pod, *pod("pg-2", "n1").Pod},
			want: map[string]string{"pg-1": "n1", "pg-2": "n1", "pg-3": "n1"},
		},
		"a pod without which all that are wanted live was scaled away, whatever its number": {
			state: recorded(0, "pg-1", "pg-2", "pg-3"), workload: &workload.Desired{AnyName: true, Replicas: 2},
			pods: []corev1.Pod{*pod("pg-1", "n1").Pod, *pod("pg-3", "n1").Pod},
			want: map[string]string{"pg-1": "n1", "pg-3": "n1"},
		},
		"while another is rebuilt the one scaled away is unknown": {
			state: recorded(0, "pg-1", "pg-2", "pg-3"), workload: &workload.Desired{AnyName: true, Replicas: 2},
			pods: []corev1.Pod{*pod("pg-1", "n1").Pod},
			want: map[string]string{"pg-1": "n1", "pg-2": "n1", "pg-3": "n1"},
		},
		"scaled to zero, none is wanted": {
			state: recorded(0, "pg-1"), workload: &workload.Desired{AnyName: true}, want: map[string]string{},
		},
		"a younger one for the same target records nothing": {
			state: recorded(0, "web-0"), older: "first", workload: &workload.Desired{Replicas: 1},
			pods: []corev1.Pod{*pod("web-0", "n2").Ready().Pod}, want: map[string]string{},
		},
	}
	nodes := map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.state.DeepCopy()
			got := pin.Record(pin.RecordInput{
				State: tc.state, Older: tc.older, Workload: tc.workload, Pods: tc.pods, Nodes: nodes,
				Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now,
			})
			places := map[string]string{}
			for pod, s := range got.Status.PodStates {
				places[pod] = s.NodeName
			}
			if diff := cmp.Diff(tc.want, places); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if got.Again != tc.wantAgain {
				t.Errorf("again after %s, want %s", got.Again, tc.wantAgain)
			}
			if diff := cmp.Diff(before, tc.state); diff != "" {
				t.Errorf("the state was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Deciding again from what was decided changes nothing: a status that keeps changing
// would wake its own reconciler forever.
func TestRecordIsStable(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	input := pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*testenv.APod("web-0").On("n1").Ready().Pod},
		Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
		Retain: func(*corev1.Pod) time.Duration { return time.Minute }, Now: now,
	}
	first := pin.Record(input)
	state.Status = first.Status
	input.Now = now.Add(time.Hour)
	if diff := cmp.Diff(first, pin.Record(input)); diff != "" {
		t.Errorf("second decision (-first +second):\n%s", diff)
	}
}

// A record says since when it holds, and which lives of the pod elsewhere it supersedes.
func TestRecordKnowsFormerLives(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	in := pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 1}, Retain: func(*corev1.Pod) time.Duration { return 0 },
		Nodes: map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node},
	}
	steps := []struct {
		uid    types.UID
		node   string
		at     time.Duration
		since  time.Duration
		former []types.UID
	}{
		{"a", "n1", 0, 0, nil},
		{"a", "n1", time.Minute, 0, nil},
		{"b", "n1", 2 * time.Minute, 2 * time.Minute, nil},
		{"c", "n2", 3*time.Minute + time.Millisecond, 3 * time.Minute, []types.UID{"b"}},
		{"d", "n2", 4 * time.Minute, 4 * time.Minute, []types.UID{"b"}},
		{"e", "n1", 5 * time.Minute, 5 * time.Minute, []types.UID{"b", "d"}},
		{"f", "n2", 6 * time.Minute, 6 * time.Minute, []types.UID{"b", "d", "e"}},
		{"g", "n1", 7 * time.Minute, 7 * time.Minute, []types.UID{"b", "d", "e", "f"}},
		{"h", "n2", 8 * time.Minute, 8 * time.Minute, []types.UID{"d", "e", "f", "g"}},
	}
	for i, step := range steps {
		pod := testenv.APod("web-0").On(step.node).Ready()
		pod.UID = step.uid
		in.Pods, in.Now = []corev1.Pod{*pod.Pod}, now.Add(step.at)
		state.Status = pin.Record(in).Status
		got := state.Status.PodStates["web-0"]
		if want := now.Add(step.since); !got.RecordedAt.Time.Equal(want) {
			t.Errorf("step %d: recorded at %s, want %s", i, got.RecordedAt, want)
		}
		if diff := cmp.Diff(step.former, got.FormerUIDs); diff != "" {
			t.Errorf("step %d: former lives (-want +got):\n%s", i, diff)
		}
	}
}

// A record's annotations outlive a pod that never got them; again at each
// decision, for the pod stays without them.
func TestRecordOfAnnotations(t *testing.T) {
	former := map[string]string{"example.com/seed": "7"}
	unplanned := testenv.APod("web-0").On("n1").Ready()
	cases := map[string]struct {
		pod  testenv.Pod
		want map[string]string
	}{
		"created while no webhook answered":                  {unplanned, former},
		"so created with a value of its own":                 {testenv.APod("web-0").On("n1").Ready().With("example.com/seed", "8"), map[string]string{"example.com/seed": "8"}},
		"put back on the pod":                                {testenv.APod("web-0").On("n1").Ready().With(appsv1beta1.AnnotationInjected, "web").With("example.com/seed", "7"), former},
		"taken off the pod that it was put on":               {testenv.APod("web-0").On("n1").Ready().With(appsv1beta1.AnnotationInjected, "web"), nil},
		"so created with an annotation that is not recorded": {testenv.APod("web-0").On("n1").Ready().With("example.com/other", "1"), former},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
			state.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "example.com/seed"}}
			state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {
				UID: "first", NodeName: "n1", Annotations: map[string]string{"example.com/seed": "7", "unwanted": "x"},
			}}
			tc.pod.UID = "next"
			for range 2 {
				state.Status = pin.Record(pin.RecordInput{
					State: state, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*tc.pod.Pod}, Now: now,
					Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
					Retain: func(*corev1.Pod) time.Duration { return 0 },
				}).Status
				if diff := cmp.Diff(tc.want, state.Status.PodStates["web-0"].Annotations); diff != "" {
					t.Errorf("annotations (-want +got):\n%s", diff)
				}
			}
		})
	}
}
