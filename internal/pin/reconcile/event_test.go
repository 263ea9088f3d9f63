package reconcile_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

func gated(uid types.UID, version string, gates ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: uid, ResourceVersion: version}}
	for _, gate := range gates {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
	}
	return pod
}

func TestPodWaits(t *testing.T) {
	leaving := gated("new", "2", pin.Gate)
	leaving.DeletionTimestamp = &metav1.Time{}
	nominated := testenv.Pod{Pod: gated("new", "2")}.Refused("no node fits").Pod
	nominated.Status.NominatedNodeName, nominated.Spec.PreemptionPolicy = "n1", new(corev1.PreemptNever)
	later := nominated.DeepCopy()
	later.ResourceVersion = "3"
	untried := gated("new", "2")
	untried.Spec.SchedulerName, untried.Status.NominatedNodeName = "own", "n1"
	cases := map[string]struct {
		before, after *corev1.Pod // without a former one it is a creation
		want          bool
	}{
		"a new pod behind the gate":                       {nil, gated("new", "1", pin.Gate), true},
		"a new pod without a gate":                        {nil, gated("new", "1"), false},
		"a new pod behind the gate of others":             {nil, gated("new", "1", "other"), false},
		"made anew in a gap of the watch":                 {gated("old", "1"), gated("new", "2", pin.Gate), true},
		"made anew in a gap of the watch, both gated":     {gated("old", "1", pin.Gate), gated("new", "2", pin.Gate), true},
		"made anew in a gap of the watch, open by now":    {gated("old", "1", pin.Gate), gated("new", "2"), false},
		"made anew in a gap of the watch, on its way out": {gated("old", "1"), leaving, false},
		"the nomination":                                  {gated("new", "1", pin.Gate), gated("new", "2", pin.Gate), false},
		"the opening":                                     {gated("new", "1", pin.Gate), gated("new", "2"), false},
		"the gate is seen for the first time":             {gated("new", "1"), gated("new", "2", pin.Gate), true},
		"a resync of a pod whose gate was never opened":   {gated("new", "2", pin.Gate), gated("new", "2", pin.Gate), true},
		"a resync of a pod without a gate":                {gated("new", "2"), gated("new", "2"), false},
		"another gate is opened":                          {gated("new", "1", "other", pin.Gate), gated("new", "2", pin.Gate), true},
		"ours is opened before the others":                {gated("new", "1", "other", pin.Gate), gated("new", "2", "other"), false},
		"a nomination that overstays when it is seen":     {nil, nominated, true},
		"a nomination overstays now":                      {gated("new", "1"), nominated, true},
		"a nomination overstays as before":                {nominated, later, false},
		"ours is opened for another scheduler":            {gated("new", "1", pin.Gate), untried, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got bool
			if tc.before == nil {
				got = controller.PodWaits.Create(event.CreateEvent{Object: tc.after})
			} else {
				got = controller.PodWaits.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after})
			}
			if got != tc.want {
				t.Errorf("passes: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRecordChanged(t *testing.T) {
	ready := func(uid types.UID, version string) testenv.Pod {
		pod := testenv.APod("web-0").On("n1").At("10.0.1.5").Ready()
		pod.UID, pod.ResourceVersion = uid, version
		return pod
	}
	leaving := ready("a", "2")
	leaving.DeletionTimestamp = &metav1.Time{}
	unready := ready("a", "2")
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	cases := map[string]struct {
		after testenv.Pod
		want  bool
	}{
		"nothing that a record knows":                                       {ready("a", "2"), false},
		"made anew in a gap of the watch, on its node and with its address": {ready("b", "2"), true},
		"a resync: the PersistentPodState has one, too":                     {ready("a", "1"), false},
		"not Ready any more":                                                {unready, true},
		"on its way out":                                                    {leaving, true},
		"another annotation":                                                {ready("a", "2").With("k", "v"), true},
		"one more address":                                                  {ready("a", "2").At("fd00::5"), true},
		"taken by an owner":                                                 {ready("a", "2").OwnedBy(testenv.AStatefulSet("web", 1).StatefulSet), true},
		"on another node somehow":                                           {ready("a", "2").On("n2"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := controller.RecordChanged.Update(event.UpdateEvent{ObjectOld: ready("a", "1").Pod, ObjectNew: tc.after.Pod})
			if got != tc.want {
				t.Errorf("passes: %t, want %t", got, tc.want)
			}
		})
	}
}
