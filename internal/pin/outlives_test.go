package pin_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A generated object outlives its workload for as long as a record does, and for a minute at least: the
// workload may be applied again. Then it is deleted. An object that a user made never is.
func TestAGeneratedObjectOutlivesItsWorkload(t *testing.T) {
	generated := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	generated.Labels = map[string]string{pin.LabelGenerated: "true"}
	generated.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {NodeName: "n1", RetainSeconds: 300}}
	byHand := generated.DeepCopy()
	byHand.Labels = nil
	nothing := generated.DeepCopy()
	nothing.Status.PodStates = nil
	unread := nothing.DeepCopy()
	unread.Status.Conditions = []metav1.Condition{{
		Type: appsv1beta1.ConditionRecording, Status: metav1.ConditionFalse, Reason: appsv1beta1.ReasonTargetUnread, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
	}}
	system := nothing.DeepCopy()
	system.Namespace = "kube-system"
	unnamed := nothing.DeepCopy()
	unnamed.Spec.TargetReference.Kind = "GameServerSet"
	recorded := generated.DeepCopy()
	recorded.Spec.TargetReference.Kind = "GameServerSet"
	set := &workload.Desired{Replicas: 1}
	type look struct {
		after    time.Duration
		workload *workload.Desired
		records  int
		over     bool
	}
	for name, tc := range map[string]struct {
		state *appsv1beta1.PersistentPodState
		looks []look
		older string
		lists string // what is wrong with the lists of kinds
	}{
		"a record": {generated, []look{
			{0, nil, 1, false}, {2 * time.Minute, nil, 1, false}, {5 * time.Minute, nil, 0, true},
		}, "", ""},
		"a record, and the workload is applied again": {generated, []look{
			{0, nil, 1, false}, {4 * time.Minute, set, 1, false}, {9 * time.Minute, set, 1, false},
		}, "", ""},
		"no record": {nothing, []look{{0, nil, 0, false}, {59 * time.Second, nil, 0, false}, {time.Minute, nil, 0, true}}, "", ""},
		"no record, and the workload is applied again": {nothing, []look{
			{0, nil, 0, false}, {30 * time.Second, set, 0, false}, {2 * time.Minute, nil, 0, false}, {3 * time.Minute, nil, 0, true},
		}, "", ""},
		"no record, and the workload could not be read before": {unread, []look{{0, nil, 0, false}, {time.Minute, nil, 0, true}}, "", ""},
		"another object has the target":                        {generated, []look{{0, set, 0, false}, {time.Hour, set, 0, false}, {2 * time.Hour, nil, 0, true}}, "first", ""},
		"made by hand, and another has the target":             {byHand, []look{{0, nil, 0, false}, {time.Hour, nil, 0, false}}, "first", ""},
		"of a kind that is no longer named":                    {unnamed, []look{{0, nil, 0, false}, {59 * time.Second, nil, 0, false}, {time.Minute, nil, 0, true}}, "", ""},
		"of a kind that a malformed list may name":             {unnamed, []look{{0, nil, 0, false}, {time.Hour, nil, 0, false}}, "", "malformed"},
		"of such a kind, with a record":                        {recorded, []look{{0, nil, 1, false}, {time.Hour, nil, 1, false}}, "", ""},
		"in a namespace that is left out":                      {system, []look{{0, nil, 0, false}, {time.Minute, nil, 0, true}}, "", ""},
		"made by hand":                                         {byHand, []look{{0, nil, 1, false}, {5 * time.Minute, nil, 0, false}, {time.Hour, nil, 0, false}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			state := tc.state.DeepCopy()
			for _, l := range tc.looks {
				got := pin.Record(pin.RecordInput{State: state, Older: tc.older, Kinds: workload.Kinds{Problem: tc.lists}, Workload: l.workload, Now: now.Add(l.after)})
				if got.Over != l.over || len(got.Status.PodStates) != l.records {
					t.Errorf("after %s: over %t with %d records, want %t with %d", l.after, got.Over, len(got.Status.PodStates), l.over, l.records)
				}
				if l.workload == nil && state.Labels != nil && !got.Over && got.Again == 0 && tc.state != recorded && tc.lists == "" {
					t.Errorf("after %s: nothing makes the recorder look again", l.after)
				}
				state.Status = got.Status
			}
		})
	}
}
