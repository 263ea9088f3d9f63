package pin_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var gameServers = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameServerSet"}

func TestRecordsWaitWhileTheTargetIsNotKnown(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).
		Recorded("web-0", "n1", map[string]string{hostname: "n1"}).PersistentPodState
	custom := state.DeepCopy()
	custom.Spec.TargetReference.APIVersion, custom.Spec.TargetReference.Kind = gameServers.GroupVersion().String(), gameServers.Kind
	cases := map[string]struct {
		in         pin.RecordInput
		wantReason string
		wantHint   string
		wantKept   bool
	}{
		"its kind is not named any more": {
			pin.RecordInput{State: custom}, appsv1beta1.ReasonTargetUnsupported, gameServers.Kind, true,
		},
		"the list of kinds is malformed": {
			pin.RecordInput{State: custom, Kinds: workload.Kinds{Problem: "no JSON"}},
			appsv1beta1.ReasonTargetUnsupported, "no JSON", true,
		},
		"its kind cannot be read": {
			pin.RecordInput{State: custom, Kinds: workload.Kinds{Named: []schema.GroupVersionKind{gameServers}}, Unread: "forbidden"},
			appsv1beta1.ReasonTargetUnread, "forbidden", true,
		},
		"it is known to be gone": {
			pin.RecordInput{State: custom, Kinds: workload.Kinds{Named: []schema.GroupVersionKind{gameServers}}},
			appsv1beta1.ReasonTargetMissing, gameServers.Kind, false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.Now = now
			got := pin.Record(tc.in)
			if _, kept := got.Status.PodStates["web-0"]; kept != tc.wantKept {
				t.Errorf("record kept: %v, want %v", kept, tc.wantKept)
			}
			c := meta.FindStatusCondition(got.Status.Conditions, appsv1beta1.ConditionRecording)
			if c.Status != metav1.ConditionFalse || c.Reason != tc.wantReason || !strings.Contains(c.Message, tc.wantHint) {
				t.Errorf("condition: %+v", c)
			}
		})
	}
}

func TestMalformedListOfKindsIsACondition(t *testing.T) {
	required := testenv.APersistentPodState("web").Requires(hostname)
	required.Status.Conditions = []metav1.Condition{
		{Type: appsv1beta1.ConditionKindsInvalid, Status: metav1.ConditionTrue, Message: "of before"},
		{Type: appsv1beta1.ConditionWaiting, Status: metav1.ConditionFalse, Reason: appsv1beta1.ReasonNoneWaits},
	}
	custom := testenv.APersistentPodState("web").Requires(hostname)
	custom.Status = *required.Status.DeepCopy()
	custom.Spec.TargetReference.APIVersion, custom.Spec.TargetReference.Kind = gameServers.GroupVersion().String(), gameServers.Kind
	kinds := []schema.GroupVersionKind{gameServers}
	cases := map[string]struct {
		state       testenv.PersistentPodState
		kinds       workload.Kinds
		wantInvalid bool
		wantWaiting metav1.ConditionStatus
	}{
		"its kind still counts":            {custom, workload.Kinds{Named: kinds, Problem: "no JSON"}, true, metav1.ConditionFalse},
		"its kind does not count any more": {custom, workload.Kinds{Problem: "no JSON"}, true, metav1.ConditionUnknown},
		"the list was mended":              {custom, workload.Kinds{Named: kinds}, false, metav1.ConditionFalse},
		"its kind was taken off the list":  {custom, workload.Kinds{}, false, metav1.ConditionUnknown},
		"its kind needs no list":           {required, workload.Kinds{Problem: "no JSON"}, false, metav1.ConditionFalse},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ended := metav1.NewTime(now.Add(-time.Minute))
			tc.state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {NodeName: "n1", RetainSeconds: 600, EndedAt: &ended}}
			got := pin.Record(pin.RecordInput{State: tc.state.PersistentPodState, Kinds: tc.kinds, Workload: &workload.Desired{}, Now: now})
			c := meta.FindStatusCondition(got.Status.Conditions, appsv1beta1.ConditionKindsInvalid)
			if (c != nil) != tc.wantInvalid {
				t.Fatalf("condition: %+v, want it %v", c, tc.wantInvalid)
			}
			if c != nil && (c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "no JSON") || !strings.Contains(c.Message, "remedy")) {
				t.Errorf("condition: %+v", c)
			}
			if w := meta.FindStatusCondition(got.Status.Conditions, appsv1beta1.ConditionWaiting); w == nil || w.Status != tc.wantWaiting {
				t.Errorf("waiting: %+v, want %s", w, tc.wantWaiting)
			}
			if r := got.Status.PodStates["web-0"]; !r.EndedAt.Equal(&ended) {
				t.Errorf("record %+v, want the same end", r)
			}
		})
	}
}
