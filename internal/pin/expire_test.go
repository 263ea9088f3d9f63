package pin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
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

// A set that is scaled to zero and back gets its pods on other nodes. That is a move while the record lasts, which is as
// long as the addresses are kept; afterwards the set has new pods, whose places are not promised.
func TestAMoveIsCountedWhileTheRecordLasts(t *testing.T) {
	nodes := map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node}
	running := func(uid types.UID, node string) (pods []corev1.Pod) {
		for _, name := range []string{"web-0", "web-1", "web-2"} {
			pod := testenv.APod(name).On(node).Ready()
			pod.UID = types.UID(name) + uid
			pods = append(pods, *pod.Pod)
		}
		return pods
	}
	for name, tc := range map[string]struct {
		policy appsv1beta1.RetentionPolicy
		away   time.Duration
		moved  int64
	}{
		"back within the duration":                         {away: 4 * time.Minute, moved: 3},
		"back beyond the duration":                         {away: 6 * time.Minute},
		"back beyond the duration, and records do not end": {policy: appsv1beta1.RetainWhenDeleted, away: 6 * time.Minute, moved: 3},
		"records that end at once":                         {policy: appsv1beta1.RetainWhenScaled, away: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
			state.Spec.PersistentPodStateRetentionPolicy = tc.policy
			for _, step := range []struct {
				after    time.Duration
				replicas int32
				pods     []corev1.Pod
			}{{0, 3, running("a", "n1")}, {time.Second, 0, nil}, {tc.away, 0, nil}, {tc.away, 3, running("b", "n2")}} {
				state.Status = pin.Record(pin.RecordInput{
					State: state, Workload: &workload.Desired{Replicas: step.replicas}, Pods: step.pods, Nodes: nodes, Now: now.Add(step.after),
					Retain: func(*corev1.Pod) time.Duration { return 5 * time.Minute },
				}).Status
			}
			var moved int64
			if r := state.Status.Rebuilds; r != nil {
				moved = r.Moved
			}
			if moved != tc.moved || len(state.Status.PodStates) != 3 {
				t.Errorf("%d moves are counted with %d records, want %d with 3", moved, len(state.Status.PodStates), tc.moved)
			}
		})
	}
}
