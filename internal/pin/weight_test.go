package pin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// OpenKruise stores weights that the API server refuses in a pod, which must be created
// all the same. The status says what is made of them.
func TestWeightsThatNoPodCanHave(t *testing.T) {
	const well = "pods are recorded when they are Ready"
	cases := map[string]struct {
		state     testenv.PersistentPodState
		want      []corev1.PreferredSchedulingTerm
		wantGates []string
		wantSaid  []string // of the condition, after what it says when all is well
	}{
		"the least and the most": {
			testenv.APersistentPodState("web").Prefers(1, hostname).Prefers(100, zone),
			[]corev1.PreferredSchedulingTerm{preferred(1, in(hostname, "n1")), preferred(100, in(zone, "a"))},
			[]string{pin.Gate},
			nil,
		},
		"0 is no wish": {
			testenv.APersistentPodState("web").Prefers(0, hostname).Prefers(7, zone),
			[]corev1.PreferredSchedulingTerm{preferred(7, in(zone, "a"))},
			nil,
			[]string{"[0] has weight 0 and is left out"},
		},
		"less than 0 is none either": {
			testenv.APersistentPodState("web").Prefers(-3, hostname), nil, nil, []string{"[0] has weight -3 and is left out"},
		},
		"more than 100 is 100": {
			testenv.APersistentPodState("web").Prefers(101, hostname).Prefers(0, zone),
			[]corev1.PreferredSchedulingTerm{preferred(100, in(hostname, "n1"))},
			[]string{pin.Gate},
			[]string{"[0] has weight 101, which counts as 100", "[1] has weight 0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := tc.state.Recorded("web-0", "n1", home).PersistentPodState
			got := pin.Plan(pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").Node, Now: now}).Patch
			if diff := cmp.Diff(tc.want, got.Preferred); diff != "" {
				t.Errorf("preferences (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantGates, got.Gates); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
			status := pin.Record(pin.RecordInput{State: state, Workload: &workload.Desired{Replicas: 1}, Now: now}).Status
			c := meta.FindStatusCondition(status.Conditions, appsv1beta1.ConditionRecording)
			if !strings.HasPrefix(c.Message, well) || (c.Message == well) != (tc.wantSaid == nil) {
				t.Errorf("condition says %q", c.Message)
			}
			for _, said := range tc.wantSaid {
				if !strings.Contains(c.Message, said) {
					t.Errorf("condition says %q, not %q", c.Message, said)
				}
			}
		})
	}
}
