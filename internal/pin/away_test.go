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

// The time that a pod was away counts from the end of its last life that had the address, through
// successors that wait, and over changes of the leader: only the status lasts. An object is back for
// a moment, Pending, before it is Ready.
func TestTheTimeAwayCountsUntilThePodIsJudged(t *testing.T) {
	start := now
	at := func(uid types.UID, created time.Duration, ips ...string) *testenv.Pod {
		pod := testenv.APod("web-0").On("n1").At(ips...)
		pod.UID, pod.CreationTimestamp = uid, metav1.NewTime(start.Add(created))
		return &pod
	}
	type step struct {
		after time.Duration
		pod   *testenv.Pod
	}
	running := func(uid types.UID, created time.Duration, ip string) *testenv.Pod {
		pod := at(uid, created, ip).Ready()
		return &pod
	}
	first := step{0, running("a", -time.Hour, "10.0.1.5")}
	cases := map[string]struct {
		steps []step
		want  string
	}{
		"a successor waits at once":          {[]step{first, {2 * time.Second, at("b", time.Second)}, {90 * time.Second, running("b", time.Second, "10.0.1.6")}}, pin.CauseExpired},
		"a successor comes late":             {[]step{first, {time.Second, nil}, {70 * time.Second, at("b", 70*time.Second)}, {72 * time.Second, running("b", 70*time.Second, "10.0.1.6")}}, pin.CauseExpired},
		"a successor never ran":              {[]step{first, {time.Second, nil}, {30 * time.Second, at("b", 30*time.Second)}, {40 * time.Second, nil}, {70 * time.Second, at("c", 70*time.Second)}, {72 * time.Second, running("c", 70*time.Second, "10.0.1.6")}}, pin.CauseExpired},
		"a successor came in time":           {[]step{first, {time.Second, nil}, {20 * time.Second, at("b", 20*time.Second)}, {22 * time.Second, running("b", 20*time.Second, "10.0.1.6")}}, pin.CauseForced},
		"a successor had the address longer": {[]step{first, {time.Second, nil}, {20 * time.Second, at("b", 20*time.Second, "10.0.1.5")}, {65 * time.Second, nil}, {70 * time.Second, running("c", 70*time.Second, "10.0.1.6")}}, pin.CauseForced},
		"its sandbox alone was rebuilt":      {[]step{first, {90 * time.Second, running("a", -time.Hour, "10.0.1.6")}}, pin.CauseNotHeld},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
			state.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
			var last []appsv1beta1.Rebuild
			for _, s := range tc.steps {
				in := pin.RecordInput{
					State: state, Workload: &workload.Desired{Replicas: 1}, Nodes: map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
					Retain: func(*corev1.Pod) time.Duration { return time.Minute }, Now: start.Add(s.after),
				}
				if s.pod != nil {
					in.Pods = []corev1.Pod{*s.pod.Pod}
				}
				got := pin.Record(in)
				state.Status, last = got.Status, got.Rebuilds
			}
			if len(last) != 1 || last[0].Outcome != appsv1beta1.Lost || last[0].Cause != tc.want {
				t.Errorf("rebuilds %+v, want one Lost by %s", last, tc.want)
			}
		})
	}
}
