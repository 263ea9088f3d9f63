package pin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// unplaced is a pod that must go to node n1, and that the scheduler refused.
func unplaced() testenv.Pod {
	pod := testenv.APod("web-0").With(podpatch.AnnotationPlace, hostname+"=n1").With(appsv1beta1.AnnotationInjected, "web")
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available",
	}}
	return pod
}

// One pod waits for its node, is released after its time, and is at home elsewhere.
func TestRecordOfAPodThatWaits(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname).Recorded("web-0", "n1", map[string]string{hostname: "n1"})
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationReleaseAfter, "10m")
	at := now
	decide := func(pod testenv.Pod, nodes ...*corev1.Node) pin.Recording {
		t.Helper()
		in := pin.RecordInput{
			State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
			Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: at, Cluster: nodes, Nodes: map[string]*corev1.Node{},
		}
		for _, n := range nodes {
			in.Nodes[n.Name] = n
		}
		got := pin.Record(in)
		state.Status = got.Status
		return got
	}
	waiting := func() *metav1.Condition {
		return meta.FindStatusCondition(state.Status.Conditions, appsv1beta1.ConditionWaiting)
	}
	cordoned := testenv.ANode("n1").Cordoned().Node

	got := decide(unplaced(), cordoned)
	if len(got.Waits) != 1 || !got.Waits[0].Changed || got.Waits[0].Decision.Verdict != pin.Hold || got.Again != 10*time.Minute {
		t.Fatalf("first: %+v, want a change: a pod that is held for ten minutes", got)
	}
	if text := got.Waits[0].String(); !strings.Contains(text, "kubectl uncordon n1") {
		t.Errorf("event %q does not say what would help", text)
	}
	if c := waiting(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != pin.ReasonNodeCordoned || !strings.Contains(c.Message, "web-0") {
		t.Errorf("condition %+v", c)
	}

	first := state.Status.DeepCopy()
	at = at.Add(9 * time.Minute)
	if got = decide(unplaced(), cordoned); got.Waits[0].Changed || got.Again != time.Minute {
		t.Errorf("again: %+v, want no change, and a minute left", got)
	}
	if diff := cmp.Diff(first, &state.Status); diff != "" {
		t.Errorf("the status changed while nothing happened (-before +after):\n%s", diff)
	}
	if got = decide(unplaced()); !got.Waits[0].Changed || waiting().Reason != pin.ReasonNodeGone {
		t.Errorf("when the node is gone: %+v, %+v, want a change", got, waiting())
	}

	at = at.Add(time.Minute)
	if got = decide(unplaced()); got.Waits[0].Decision.Verdict != pin.LetGo || state.Status.PodStates["web-0"].ReleasedAt == nil {
		t.Fatalf("after its time: %+v, want it released and noted", got)
	}
	if c := waiting(); c.Status != metav1.ConditionFalse {
		t.Errorf("condition %+v for a pod that was released", c)
	}
	decide(testenv.APod("web-0"))
	if state.Status.PodStates["web-0"].ReleasedAt == nil {
		t.Error("its next life is not released")
	}
	decide(testenv.APod("web-0").On("n2").Ready(), testenv.ANode("n2").Node)
	want := map[string]appsv1beta1.PodState{"web-0": {
		RecordedAt: &metav1.Time{Time: at}, NodeName: "n2", NodeTopologyLabels: map[string]string{hostname: "n2"},
	}}
	if diff := cmp.Diff(want, state.Status.PodStates); diff != "" {
		t.Errorf("records in the end (-want +got):\n%s", diff)
	}
}

// A pod waits for a place that has no record, since its PersistentPodState was made again.
// It is reported once, and released in time all the same.
func TestRecordOfAPodThatWaitsForARecalledPlace(t *testing.T) {
	cases := map[string]struct {
		recalled string
		nodes    []*corev1.Node
		want     appsv1beta1.PodState
	}{
		"on a node that its addresses told of": {
			"n1",
			[]*corev1.Node{testenv.ANode("n1").Labelled(zone, "a").Cordoned().Node},
			appsv1beta1.PodState{NodeName: "n1", NodeTopologyLabels: home, RetainSeconds: 60, RecordedAt: &metav1.Time{Time: now}},
		},
		"on such a node that is gone by now": {
			"n1", nil,
			appsv1beta1.PodState{NodeName: "n1", NodeTopologyLabels: map[string]string{hostname: "n1"}, RetainSeconds: 60, RecordedAt: &metav1.Time{Time: now}},
		},
		"which only the pod remembers": {"", nil, appsv1beta1.PodState{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Requires(hostname).Prefers(1, zone)
			metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationReleaseAfter, "10m")
			pod := unplaced()
			pod.CreationTimestamp = metav1.NewTime(now)
			if tc.recalled != "" {
				pod = pod.With(pin.AnnotationRecalled, tc.recalled).With(pin.AnnotationFormer, "last "+homeIPs)
				tc.want.UID, tc.want.IPs = "last", homeIPs
			}
			decide := func(pod testenv.Pod, after time.Duration) pin.Recording {
				got := pin.Record(pin.RecordInput{
					State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
					Retain: func(*corev1.Pod) time.Duration { return time.Minute }, Now: now.Add(after), Cluster: tc.nodes,
				})
				state.Status = got.Status
				return got
			}
			if got := decide(pod, 0); len(got.Waits) != 1 || !got.Waits[0].Changed || got.Again != 10*time.Minute {
				t.Fatalf("first: %+v, want a change: a pod that is held for ten minutes", got)
			}
			record := state.Status.PodStates["web-0"]
			record.Waiting, record.EndedAt = nil, nil
			if diff := cmp.Diff(tc.want, record); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if got := decide(pod, 9*time.Minute); got.Waits[0].Changed || got.Again != time.Minute {
				t.Errorf("again: %+v, want no change, and a minute left", got)
			}
			if got := decide(pod, 10*time.Minute); got.Waits[0].Decision.Verdict != pin.LetGo || state.Status.PodStates["web-0"].ReleasedAt == nil {
				t.Errorf("after its time: %+v, want it released and noted", got)
			}
			decide(testenv.APod("web-0").On("n2"), 11*time.Minute)
			if record := state.Status.PodStates["web-0"]; record.Waiting != nil || record.ReleasedAt == nil {
				t.Errorf("record %+v of a pod that has a node, want it released until it is Ready", record)
			}
		})
	}
}

// A pod that a backup brought from another cluster waits for a node that never was here. It waits a minute.
func TestAPodWhosePlaceIsOfAnotherClusterIsReleased(t *testing.T) {
	set := &workload.Desired{Replicas: 1, Created: now.Add(5 * time.Second)} // the backup brings pods first
	older, younger := unplaced(), unplaced()
	older.CreationTimestamp, younger.CreationTimestamp = metav1.NewTime(now), metav1.NewTime(now.Add(6*time.Second))
	fresh, recorded := testenv.APersistentPodState("web").Requires(hostname), testenv.APersistentPodState("web").Requires(hostname).Recorded("web-0", "n1", home)
	for name, tc := range map[string]struct {
		pod   testenv.Pod
		state testenv.PersistentPodState
		nodes []*corev1.Node
		want  pin.PlaceVerdict
	}{
		"no node has the place":      {older, fresh, nil, pin.LetGo},
		"a node has it, and is full": {older, fresh, []*corev1.Node{testenv.ANode("n1").Node}, pin.Hold},
		"the place is recorded":      {older, recorded, nil, pin.Hold},
		"the workload made the pod":  {younger, fresh, nil, pin.Hold},
	} {
		t.Run(name, func(t *testing.T) {
			state := tc.state.DeepCopy()
			var got pin.Recording
			for after := range 2 {
				got = pin.Record(pin.RecordInput{
					State: state, Workload: set, Pods: []corev1.Pod{*tc.pod.Pod}, Cluster: tc.nodes,
					Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now.Add(time.Duration(after) * time.Minute),
				})
				if state.Status = got.Status; after == 0 && got.Waits[0].Decision.Verdict != pin.Hold {
					t.Fatalf("at once: %+v, want it held for a minute", got.Waits)
				}
			}
			if got.Waits[0].Decision.Verdict != tc.want {
				t.Errorf("after a minute: %+v, want verdict %d", got.Waits, tc.want)
			}
		})
	}
}

// A node is uncordoned, and the scheduler has not said more yet. Its former verdict is not told as that of now.
func TestAVerdictFromBeforeAnUncordonIsNotTold(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname).Recorded("web-0", "n1", map[string]string{hostname: "n1"})
	pod := unplaced()
	pod.Status.Conditions[0].Message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are available"
	look := func(n1 *corev1.Node) pin.Wait {
		t.Helper()
		got := pin.Record(pin.RecordInput{
			State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
			Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now, Cluster: []*corev1.Node{n1, testenv.ANode("n2").Node},
		})
		state.Status = got.Status
		return got.Waits[0]
	}
	if w := look(testenv.ANode("n1").Cordoned().Node); !w.Changed || w.Decision.Reason != pin.ReasonNodeCordoned {
		t.Errorf("while it is cordoned: %+v", w)
	}
	if w := look(testenv.ANode("n1").Node); w.Changed || strings.Contains(w.String(), "were unschedulable") {
		t.Errorf("right after it was uncordoned: changed %t: %s", w.Changed, w)
	}
	pod.Status.Conditions[0].Message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
	if w := look(testenv.ANode("n1").Node); !w.Changed || w.Decision.Reason != pin.CauseNodeRefused || !strings.Contains(w.String(), "Insufficient cpu") {
		t.Errorf("when the scheduler has tried it again: changed %t: %s", w.Changed, w)
	}
}

// While one node is uncordoned another one is cordoned: the verdict counts as many cordoned nodes as there are, and it is
// of before all the same.
func TestAVerdictIsNotTakenForThatOfOtherNodes(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname).Recorded("web-0", "n1", map[string]string{hostname: "n1"})
	pod := unplaced()
	n1, n2 := testenv.ANode("n1"), testenv.ANode("n2")
	look := func(verdict string, nodes ...*corev1.Node) pin.Wait {
		t.Helper()
		pod.Status.Conditions[0].Message = "0/2 nodes are available: " + verdict
		got := pin.Record(pin.RecordInput{
			State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
			Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now, Cluster: nodes,
		})
		state.Status = got.Status
		return got.Waits[0]
	}
	const before = "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable. preemption: none"
	look(before, n1.Cordoned().Node, n2.Node)
	if w := look(before, testenv.ANode("n1").Node, testenv.ANode("n2").Cordoned().Node); w.Changed || strings.Contains(w.String(), "were unschedulable") {
		t.Errorf("right after the change: changed %t: %s", w.Changed, w)
	}
	const after = "1 Insufficient cpu, 1 node(s) were unschedulable. preemption: none"
	if w := look(after, testenv.ANode("n1").Node, testenv.ANode("n2").Cordoned().Node); !w.Changed || !strings.Contains(w.String(), "Insufficient cpu") {
		t.Errorf("when the scheduler has tried them: changed %t: %s", w.Changed, w)
	}
}

// A pod that got a node after all leaves nothing behind where nothing else was recorded.
func TestRecordForgetsAWaitThatIsOver(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname)
	for _, pod := range []testenv.Pod{unplaced(), testenv.APod("web-0").On("n1")} {
		state.Status = pin.Record(pin.RecordInput{
			State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
			Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now,
		}).Status
	}
	if len(state.Status.PodStates) > 0 {
		t.Errorf("records %+v, want none", state.Status.PodStates)
	}
}

// A pod that is scaled away while it waits begins again when it is wanted again.
func TestRecordForgetsTheWaitOfAPodThatIsNotWanted(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname).Recorded("web-0", "n1", map[string]string{hostname: "n1"})
	record := state.Status.PodStates["web-0"]
	record.RetainSeconds, record.Waiting = 600, &appsv1beta1.Waiting{Since: metav1.NewTime(now), Reason: pin.ReasonNodeGone}
	state.Status.PodStates["web-0"] = record
	got := pin.Record(pin.RecordInput{State: state.PersistentPodState, Workload: &workload.Desired{}, Now: now})
	if record := got.Status.PodStates["web-0"]; record.NodeName != "n1" || record.ExpiresAt == nil || record.Waiting != nil {
		t.Errorf("record %+v, want it to expire, and not to wait", record)
	}
}

func TestWaits(t *testing.T) {
	free := unplaced()
	delete(free.Annotations, podpatch.AnnotationPlace)
	foreign := unplaced()
	delete(foreign.Annotations, appsv1beta1.AnnotationInjected)
	gated := unplaced()
	gated.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	leaving := unplaced()
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	cases := map[string]struct {
		pod  testenv.Pod
		want bool
	}{
		"refused by the scheduler":         {unplaced(), true},
		"not seen by the scheduler":        {testenv.APod("web-0").With(podpatch.AnnotationPlace, hostname+"=n1"), false},
		"behind a gate":                    {gated, false},
		"without a required place":         {free, false},
		"with a place that its user wrote": {foreign, false},
		"with a place of another make":     {unplaced().With(podpatch.AnnotationPlace, "here!"), false},
		"on a node":                        {unplaced().On("n1"), false},
		"on its way out":                   {leaving, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.Waits(tc.pod.Pod); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
		})
	}
}
