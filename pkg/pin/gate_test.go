package pin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/pin"
)

func TestPlanGate(t *testing.T) {
	behind := func(gates ...string) *corev1.Pod {
		pod := testenv.APod("web-0").With(pin.AnnotationNode, "n1").Pod
		for _, name := range gates {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
		return pod
	}
	nominated := behind(pin.Gate)
	nominated.Status.NominatedNodeName = "n1"
	nameless := behind(pin.Gate)
	delete(nameless.Annotations, pin.AnnotationNode)
	going := behind(pin.Gate)
	going.DeletionTimestamp = &metav1.Time{}

	cases := map[string]struct {
		pod  *corev1.Pod
		want pin.GateDecision
	}{
		"its node is nominated and the gate opened":       {behind(pin.Gate), pin.GateDecision{Nominate: "n1", Open: true, Reason: pin.ReasonNominated}},
		"other gates make no difference":                  {behind("own", pin.Gate), pin.GateDecision{Nominate: "n1", Open: true, Reason: pin.ReasonNominated}},
		"a nomination that is there is not made again":    {nominated, pin.GateDecision{Open: true, Reason: pin.ReasonNominated}},
		"a gate without a node is opened":                 {nameless, pin.GateDecision{Open: true, Reason: pin.ReasonUngated}},
		"a pod on its way out is left":                    {going, pin.GateDecision{Reason: pin.ReasonNotGated}},
		"a pod with gates of others only is left":         {behind("own"), pin.GateDecision{Reason: pin.ReasonNotGated}},
		"a pod without a gate is left, named node or not": {behind(), pin.GateDecision{Reason: pin.ReasonNotGated}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pin.PlanGate(tc.pod), cmpopts.IgnoreFields(pin.GateDecision{}, "Message")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
