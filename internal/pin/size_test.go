package pin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestRecordsThatDoNotFit(t *testing.T) {
	const key = "example.com/blob"
	cases := map[string]struct {
		pods, kib  int
		stored     string // the one that is recorded already
		want       int
		wantReason string
	}{
		"all fit":                        {6, 200, "", 6, appsv1beta1.ReasonRecording},
		"two do not":                     {8, 200, "", 6, appsv1beta1.ReasonRecordFull},
		"what is stored is not left out": {8, 200, "web-7", 6, appsv1beta1.ReasonRecordFull},
		"many small ones do not":         {3000, 1, "web-2999", 1110, appsv1beta1.ReasonRecordFull},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname)
			if tc.stored != "" {
				state.Recorded(tc.stored, "n1", nil)
			}
			state.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: key}}
			in := pin.RecordInput{
				State: state.PersistentPodState, Workload: &workload.Desired{Replicas: int32(tc.pods)}, Now: now,
				Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
				Retain: func(*corev1.Pod) time.Duration { return 0 },
			}
			for i := range tc.pods {
				pod := testenv.APod(fmt.Sprintf("web-%d", i)).On("n1").Ready().With(key, strings.Repeat("x", tc.kib<<10))
				in.Pods = append(in.Pods, *pod.Pod)
			}
			got := pin.Record(in).Status
			if n := len(got.PodStates); n != tc.want {
				t.Errorf("%d records, want %d", n, tc.want)
			}
			if _, kept := got.PodStates["web-0"]; !kept {
				t.Error("the first pod is not recorded")
			}
			if _, kept := got.PodStates[tc.stored]; tc.stored != "" && !kept {
				t.Errorf("the record of %s was dropped", tc.stored)
			}
			c := meta.FindStatusCondition(got.Conditions, appsv1beta1.ConditionRecording)
			if c.Reason != tc.wantReason || (c.Status == metav1.ConditionTrue) != (tc.pods == tc.want) {
				t.Errorf("condition: %+v", c)
			}
			in.State.Status, in.Now = got, now.Add(time.Minute)
			again := pin.Record(in).Status
			if c := meta.FindStatusCondition(again.Conditions, appsv1beta1.ConditionRecording); !c.LastTransitionTime.Time.Equal(now) {
				t.Errorf("the condition changed without a reason: %+v", c)
			}
		})
	}
}

// A pod whose record does not fit is reported once, and released in time; its next life waits
// again, for the webhook cannot know that it was released.
func TestWaitThatDoesNotFit(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname).PersistentPodState
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationReleaseAfter, "10m")
	state.Status.PodStates = map[string]appsv1beta1.PodState{
		"web-1": {NodeName: "n1", Annotations: map[string]string{"k": strings.Repeat("x", 1280<<10-100)}},
	}
	in := pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 2}, Pods: []corev1.Pod{*unplaced().Pod},
		Cluster: []*corev1.Node{testenv.ANode("n1").Cordoned().Node},
	}
	steps := []struct {
		after     time.Duration
		changed   bool
		verdict   pin.PlaceVerdict
		wantAgain time.Duration
	}{
		{0, true, pin.Hold, 10 * time.Minute},
		{9 * time.Minute, false, pin.Hold, time.Minute},
		{10 * time.Minute, false, pin.LetGo, 0},
		{11 * time.Minute, true, pin.Hold, 10 * time.Minute},
	}
	for i, step := range steps {
		in.Now = now.Add(step.after)
		got := pin.Record(in)
		state.Status, in.Unstored = got.Status, got.Unstored
		if c := meta.FindStatusCondition(state.Status.Conditions, appsv1beta1.ConditionRecording); c.Reason != appsv1beta1.ReasonRecordFull {
			t.Fatalf("step %d: condition %+v, want it full", i, c)
		}
		if w := got.Waits; len(w) != 1 || w[0].Changed != step.changed || w[0].Decision.Verdict != step.verdict || got.Again != step.wantAgain {
			t.Errorf("step %d: %+v, again after %s; want a change %t, verdict %d, again after %s", i, w, got.Again, step.changed, step.verdict, step.wantAgain)
		}
	}
	in.Pods = []corev1.Pod{*testenv.APod("web-0").On("n1").Pod}
	if got := pin.Record(in); len(got.Unstored) > 0 {
		t.Errorf("%+v is remembered of a pod that has a node", got.Unstored)
	}
}

// A record that waited outside the object is stored with the annotations that are named now.
func TestUnstoredRecordsHaveNamedAnnotations(t *testing.T) {
	state := testenv.APersistentPodState("web").Requires(hostname).PersistentPodState
	state.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "b"}, {Key: "c"}}
	in := pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*testenv.APod("web-0").Pod}, Now: now,
		Unstored: map[string]appsv1beta1.PodState{"web-0": {NodeName: "n1", Annotations: map[string]string{"a": "1", "b": "2"}}},
	}
	got := pin.Record(in).Status.PodStates["web-0"].Annotations
	if diff := cmp.Diff(map[string]string{"b": "2"}, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
