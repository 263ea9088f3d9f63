package pin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

var gameServers = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameServerSet"}

func TestParseKinds(t *testing.T) {
	cases := map[string]struct {
		text   string
		want   []schema.GroupVersionKind
		wantOK bool
	}{
		"nothing said":  {"", nil, true},
		"an empty list": {`{"workloads":[]}`, nil, true},
		"as OpenKruise's users write it": {
			`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`,
			[]schema.GroupVersionKind{gameServers},
			true,
		},
		"keys of other features are passed over": {
			`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.size"}]}`,
			[]schema.GroupVersionKind{gameServers},
			true,
		},
		"one entry makes no sense": {
			`{"workloads":[{"Kind":"Half"},{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`,
			[]schema.GroupVersionKind{gameServers},
			false,
		},
		"kinds of Kubernetes whose pods never return": {
			`{"workloads":[{"Group":"batch","Version":"v1","Kind":"Job"},{"Group":"apps","Version":"v1","Kind":"ReplicaSet"},{"Version":"v1","Kind":"Pod"}]}`,
			nil, false,
		},
		"a kind of somebody else with the name of one": {
			`{"workloads":[{"Group":"batch.volcano.sh","Version":"v1alpha1","Kind":"Job"}]}`,
			[]schema.GroupVersionKind{{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"}},
			true,
		},
		"one that needs not be named": {
			`{"workloads":[{"Group":"apps","Version":"v1","Kind":"StatefulSet"}]}`,
			[]schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "StatefulSet"}},
			true,
		},
		"no JSON":                {`{"workloads":`, nil, false},
		"JSON of something else": {`["GameServerSet"]`, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := pin.ParseKinds(tc.text)
			if (err == nil) != tc.wantOK {
				t.Errorf("error: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseKinds(f *testing.F) {
	f.Add(`{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		kinds, _ := pin.ParseKinds(text) // what comes beside an error must be good, too
		for _, k := range kinds {
			if k.Version == "" || k.Kind == "" {
				t.Errorf("half a kind: %+v", k)
			}
		}
	})
}

func TestKindsHold(t *testing.T) {
	named := pin.Kinds{Named: []schema.GroupVersionKind{gameServers}}
	cases := map[string]struct {
		kinds            pin.Kinds
		apiVersion, kind string
		want             bool
	}{
		"a StatefulSet":                      {pin.Kinds{}, "apps/v1", "StatefulSet", true},
		"a StatefulSet of OpenKruise":        {pin.Kinds{}, "apps.kruise.io/v1alpha1", "StatefulSet", true},
		"a StatefulSet of somebody else":     {pin.Kinds{}, "example.com/v1", "StatefulSet", false},
		"a kind that was not named":          {pin.Kinds{}, "example.com/v1", "GameServerSet", false},
		"a kind that was named":              {named, "example.com/v1", "GameServerSet", true},
		"a kind that was named as another's": {named, "example.org/v1", "GameServerSet", false},
		"another version counts as well":     {named, "example.com/v2", "GameServerSet", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testenv.APersistentPodState("web").PersistentPodState
			s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind = tc.apiVersion, tc.kind
			if got := tc.kinds.Hold(pin.TargetOf(s)); got != tc.want {
				t.Errorf("Hold: %v, want %v", got, tc.want)
			}
		})
	}
}

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
			pin.RecordInput{State: custom, Kinds: pin.Kinds{Problem: "no JSON"}},
			appsv1beta1.ReasonTargetUnsupported, "no JSON", true,
		},
		"its kind cannot be read": {
			pin.RecordInput{State: custom, Kinds: pin.Kinds{Named: []schema.GroupVersionKind{gameServers}}, Unread: "forbidden"},
			appsv1beta1.ReasonTargetUnread, "forbidden", true,
		},
		"it is known to be gone": {
			pin.RecordInput{State: custom, Kinds: pin.Kinds{Named: []schema.GroupVersionKind{gameServers}}},
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
		kinds       pin.Kinds
		wantInvalid bool
		wantWaiting metav1.ConditionStatus
	}{
		"its kind still counts":            {custom, pin.Kinds{Named: kinds, Problem: "no JSON"}, true, metav1.ConditionFalse},
		"its kind does not count any more": {custom, pin.Kinds{Problem: "no JSON"}, true, metav1.ConditionUnknown},
		"the list was mended":              {custom, pin.Kinds{Named: kinds}, false, metav1.ConditionFalse},
		"its kind was taken off the list":  {custom, pin.Kinds{}, false, metav1.ConditionUnknown},
		"its kind needs no list":           {required, pin.Kinds{Problem: "no JSON"}, false, metav1.ConditionFalse},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			gone := map[string]time.Time{"web-0": now.Add(-time.Minute)}
			got := pin.Record(pin.RecordInput{State: tc.state.PersistentPodState, Kinds: tc.kinds, Workload: &pin.Workload{}, Gone: gone, Now: now})
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
			if _, known := got.Gone["web-0"]; known != (tc.wantWaiting == metav1.ConditionUnknown) {
				t.Errorf("gone: %v", got.Gone)
			}
		})
	}
}
