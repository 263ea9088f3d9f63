package pin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/workload"
)

// A record that ends lasts as long as the pod's addresses: they are reserved when the pod
// has ended, however long that takes.
func TestRecordExpiresFromTheEndOfThePod(t *testing.T) {
	leaving := func(phase corev1.PodPhase) []corev1.Pod {
		pod := testenv.APod("web-0").On("n1")
		pod.DeletionTimestamp, pod.Status.Phase = &metav1.Time{Time: now}, phase
		return []corev1.Pod{*pod.Pod}
	}
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {NodeName: "n1", RetainSeconds: 60}}
	steps := []struct {
		after time.Duration
		pods  []corev1.Pod
		want  time.Duration // until it ends; 0 while its time does not run
		over  bool
	}{
		{after: 0, pods: leaving(corev1.PodRunning)},
		{after: time.Hour, pods: leaving(corev1.PodRunning)},
		{after: time.Hour, pods: leaving(corev1.PodSucceeded), want: time.Minute},
		{after: time.Hour + 10*time.Second, want: 50 * time.Second},
		{after: time.Hour + 20*time.Second, pods: leaving(corev1.PodRunning)},
		{after: 2 * time.Hour, want: time.Minute},
		{after: 2*time.Hour + time.Minute, over: true},
	}
	for i, step := range steps {
		got := pin.Record(pin.RecordInput{State: state, Workload: &workload.Desired{}, Pods: step.pods, Now: now.Add(step.after)})
		state.Status = got.Status
		record, kept := got.Status.PodStates["web-0"]
		if kept == step.over || got.Again != step.want || (record.ExpiresAt != nil) != (step.want > 0) {
			t.Errorf("step %d: %+v, again after %s; want it over %t, again after %s", i, record, got.Again, step.over, step.want)
		}
	}
}
