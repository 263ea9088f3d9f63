package pin_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/workload"
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
	}{
		"a record": {generated, []look{
			{0, nil, 1, false}, {2 * time.Minute, nil, 1, false}, {5 * time.Minute, nil, 0, true},
		}},
		"a record, and the workload is applied again": {generated, []look{
			{0, nil, 1, false}, {4 * time.Minute, set, 1, false}, {9 * time.Minute, set, 1, false},
		}},
		"no record": {nothing, []look{{0, nil, 0, false}, {59 * time.Second, nil, 0, false}, {time.Minute, nil, 0, true}}},
		"no record, and the workload is applied again": {nothing, []look{
			{0, nil, 0, false}, {30 * time.Second, set, 0, false}, {2 * time.Minute, nil, 0, false}, {3 * time.Minute, nil, 0, true},
		}},
		"no record, and the workload could not be read before": {unread, []look{{0, nil, 0, false}, {time.Minute, nil, 0, true}}},
		"in a namespace that is left out":                      {system, []look{{0, nil, 0, false}, {time.Minute, nil, 0, true}}},
		"made by hand":                                         {byHand, []look{{0, nil, 1, false}, {5 * time.Minute, nil, 0, false}, {time.Hour, nil, 0, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			state := tc.state.DeepCopy()
			for _, l := range tc.looks {
				got := pin.Record(pin.RecordInput{State: state, Workload: l.workload, Now: now.Add(l.after)})
				if got.Over != l.over || len(got.Status.PodStates) != l.records {
					t.Errorf("after %s: over %t with %d records, want %t with %d", l.after, got.Over, len(got.Status.PodStates), l.over, l.records)
				}
				if l.workload == nil && state.Labels != nil && !got.Over && got.Again == 0 {
					t.Errorf("after %s: nothing makes the recorder look again", l.after)
				}
				state.Status = got.Status
			}
		})
	}
}
