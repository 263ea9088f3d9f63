package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/workload"
)

func TestResyncAfter(t *testing.T) {
	var got []time.Duration
	for nudged := range 7 {
		got = append(got, pin.ResyncAfter(nudged))
	}
	want := []time.Duration{
		2 * time.Second, 8 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}

func TestLacksPods(t *testing.T) {
	ready, unready := testenv.APod("web-0").Ready().Pod, testenv.APod("web-0").Pod
	cases := map[string]struct {
		change func(*appsv1.StatefulSet)
		pod    *corev1.Pod
		want   bool
	}{
		"a pod is missing":                       {func(*appsv1.StatefulSet) {}, ready, true},
		"none is":                                {func(s *appsv1.StatefulSet) { s.Status.Replicas = 2 }, ready, false},
		"it is being deleted":                    {func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: now} }, ready, false},
		"the next has to wait for the one":       {func(*appsv1.StatefulSet) {}, unready, false},
		"the next need not wait for the one":     {func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, unready, true},
		"one is wanted where no number is given": {func(s *appsv1.StatefulSet) { s.Spec.Replicas, s.Status.Replicas = nil, 0 }, ready, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", 2)
			set.Status.Replicas = 1
			tc.change(set.StatefulSet)
			if got := pin.LacksPods(set.StatefulSet, []corev1.Pod{*tc.pod}); got != tc.want {
				t.Errorf("lacks pods: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).
		Recorded("web-0", "n1", nil).Recorded("web-1", "n1", nil).Recorded("web-2", "n1", nil).PersistentPodState
	scaledAway := state.Status.PodStates["web-2"]
	scaledAway.ExpiresAt = &metav1.Time{Time: now}
	state.Status.PodStates["web-2"] = scaledAway
	missing := pin.Missing(state, []corev1.Pod{*testenv.APod("web-0").Pod})
	if diff := cmp.Diff([]string{"web-1"}, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	pods := []corev1.Pod{*testenv.APod("web-0").Pod}
	for _, names := range []bool{false, true} {
		if !(workload.Desired{AnyName: names, Replicas: 2}).ContainsAny(missing, pods) || (workload.Desired{AnyName: names, Replicas: 1}).ContainsAny(missing, pods) {
			t.Errorf("names %v: web-1 is wanted by a workload of two, and not by one of one", names)
		}
	}
}
