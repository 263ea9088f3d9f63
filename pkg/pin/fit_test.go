package pin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
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
				State: state.PersistentPodState, Workload: &pin.Workload{Replicas: int32(tc.pods)}, Now: now,
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
