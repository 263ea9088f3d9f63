package pin_test

import (
	"testing"
	"time"

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

	fit := testenv.ANode("n1").Node
	dead := testenv.ANode("n1").Node
	dead.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}
	cordoned := testenv.ANode("n1").Node
	cordoned.Spec.Unschedulable = true
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	created := func(ago time.Duration) *corev1.Pod {
		pod := behind(pin.Gate)
		pod.CreationTimestamp = metav1.NewTime(now.Add(-ago))
		return pod
	}

	nominate := pin.GateDecision{Nominate: "n1", Open: true, Reason: pin.ReasonNominated}
	open := pin.GateDecision{Open: true, Reason: pin.ReasonUngated}
	leave := pin.GateDecision{Reason: pin.ReasonNotGated}
	listen := pin.GateDecision{Again: 2 * time.Second, Reason: pin.ReasonNodeSilent}
	cases := map[string]struct {
		in   pin.GateInput
		want pin.GateDecision
	}{
		"its node is nominated and the gate opened":        {pin.GateInput{Pod: behind(pin.Gate), Node: fit}, nominate},
		"a cordoned node is nominated: the scheduler sees": {pin.GateInput{Pod: behind(pin.Gate), Node: cordoned}, nominate},
		"other gates make no difference":                   {pin.GateInput{Pod: behind("own", pin.Gate), Node: fit}, nominate},
		"a nomination that is there is not made again":     {pin.GateInput{Pod: nominated, Node: fit}, pin.GateDecision{Open: true, Reason: pin.ReasonNominated}},
		"a gate without a node is opened":                  {pin.GateInput{Pod: nameless}, open},
		"a node that is gone is not nominated":             {pin.GateInput{Pod: behind(pin.Gate)}, open},
		"a node that is silent is listened to":             {pin.GateInput{Pod: created(59 * time.Second), Node: fit, Silent: true}, listen},
		"no agent listens for more than a minute":          {pin.GateInput{Pod: created(time.Minute), Node: fit, Silent: true}, nominate},
		"a node that was found dead is not nominated":      {pin.GateInput{Pod: created(time.Second), Node: dead, Silent: true}, open},
		"a pod on its way out is left":                     {pin.GateInput{Pod: going, Node: fit}, leave},
		"a pod with gates of others only is left":          {pin.GateInput{Pod: behind("own"), Node: fit}, leave},
		"a pod without a gate is left, named node or not":  {pin.GateInput{Pod: behind(), Node: fit}, leave},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.Now = now
			if diff := cmp.Diff(tc.want, pin.PlanGate(tc.in), cmpopts.IgnoreFields(pin.GateDecision{}, "Message")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
