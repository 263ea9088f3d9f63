package pin_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TestAUserForgetsRecords gives up records of pods that are away, that run, that wait, and that end.
func TestAUserForgetsRecords(t *testing.T) {
	leaving := testenv.APod("web-0").On("n1").Ready()
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	ready := testenv.APod("web-0").On("n1").Ready()
	ready.UID = "u0"
	for name, tc := range map[string]struct {
		value string
		pods  []corev1.Pod
		want  []string
	}{
		"none":                        {"", nil, []string{"web-0", "web-1", "web-2"}},
		"one":                         {"u0", nil, []string{"web-1", "web-2"}},
		"two, with spaces":            {" u0, u1 ,", nil, []string{"web-2"}},
		"a name in place of a UID":    {"web-0", nil, []string{"web-0", "web-1", "web-2"}},
		"an earlier life":             {"u", nil, []string{"web-0", "web-1", "web-2"}},
		"a record without a UID":      {",", nil, []string{"web-0", "web-1", "web-2"}},
		"a value that is too long":    {"u0" + strings.Repeat(",", 64<<10), nil, []string{"web-0", "web-1", "web-2"}},
		"a pod that runs":             {"u0", []corev1.Pod{*ready.Pod}, []string{"web-0", "web-1", "web-2"}},
		"a pod that waits for a node": {"u0", []corev1.Pod{*testenv.APod("web-0").Pod}, []string{"web-0", "web-1", "web-2"}},
		"a pod that is ending":        {"u0", []corev1.Pod{*leaving.Pod}, []string{"web-0", "web-1", "web-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Requires(hostname).PersistentPodState
			metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationForget, tc.value)
			state.Status.PodStates = map[string]appsv1beta1.PodState{
				"web-0": {UID: "u0", NodeName: "n1"}, "web-1": {UID: "u1", NodeName: "n1"}, "web-2": {NodeName: "n1"},
			}
			got := pin.Record(pin.RecordInput{
				State: state, Workload: &workload.Desired{Replicas: 3}, Pods: tc.pods, Now: now,
				Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
				Retain: func(*corev1.Pod) time.Duration { return time.Minute },
			})
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(got.Status.PodStates))); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheMostForgottenFit reads a value with as many UIDs as a user may write.
func TestTheMostForgottenFit(t *testing.T) {
	uids := make([]string, pin.MostForgotten)
	for i := range uids {
		uids[i] = fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
	}
	state := testenv.APersistentPodState("web").PersistentPodState
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationForget, strings.Join(uids, ","))
	if got := pin.Forgotten(state); len(got) != pin.MostForgotten {
		t.Errorf("%d UIDs, want %d", len(got), pin.MostForgotten)
	}
}
