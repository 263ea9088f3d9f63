package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
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

func TestAShortfallOfAnHourIsLeftToItsController(t *testing.T) {
	at, n := time.Duration(0), 0
	for ; n < 100 && at <= 24*time.Hour; n++ {
		at = pin.ResyncAfter(n)
	}
	if n != 17 || pin.ResyncAfter(n-2) != time.Hour {
		t.Errorf("%d resyncs in a day, the last after %s; want 16, the last after an hour", n-1, pin.ResyncAfter(n-2))
	}
}

func TestLacksPods(t *testing.T) {
	ready := func(name string) corev1.Pod { return *testenv.APod(name).Ready().Pod }
	unready := func(name string) corev1.Pod { return *testenv.APod(name).Pod }
	ended := ready("web-0")
	ended.Status.Phase = corev1.PodFailed
	waits := func(available int32) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds, s.Status.AvailableReplicas = 30, available }
	}
	same := func(*appsv1.StatefulSet) {}
	cases := map[string]struct {
		change func(*appsv1.StatefulSet)
		pods   []corev1.Pod
		want   bool
	}{
		"a pod is missing":                         {same, []corev1.Pod{ready("web-0")}, true},
		"none is":                                  {func(s *appsv1.StatefulSet) { s.Status.Replicas = 3 }, []corev1.Pod{ready("web-0")}, false},
		"all are there, and the status is late":    {same, []corev1.Pod{ready("web-0"), ready("web-1"), ready("web-2")}, false},
		"it is being deleted":                      {func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: now} }, []corev1.Pod{ready("web-0")}, false},
		"the next has to wait for the one":         {same, []corev1.Pod{unready("web-0")}, false},
		"the next has to wait for one that ended":  {same, []corev1.Pod{ended}, false},
		"the first does not wait for the others":   {same, []corev1.Pod{unready("web-1"), unready("web-2")}, true},
		"a lower one waits for no higher one":      {same, []corev1.Pod{ready("web-0"), unready("web-2")}, true},
		"ordinals may begin anywhere":              {func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }, []corev1.Pod{unready("web-6")}, true},
		"the next need not wait for the one":       {func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, []corev1.Pod{unready("web-0")}, true},
		"all are there, in any order":              {func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }, []corev1.Pod{ready("web-a"), ready("web-b"), unready("web-c")}, false},
		"one is wanted where no number is given":   {func(s *appsv1.StatefulSet) { s.Spec.Replicas, s.Status.Replicas = nil, 0 }, nil, true},
		"the one is Ready, and not yet available":  {waits(0), []corev1.Pod{ready("web-0")}, false},
		"the one is available":                     {waits(1), []corev1.Pod{ready("web-0")}, true},
		"the first is missing, and none available": {waits(0), []corev1.Pod{ready("web-1")}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", 3)
			set.Status.Replicas = 1
			tc.change(set.StatefulSet)
			if got := pin.LacksPods(set.StatefulSet, tc.pods); got != tc.want {
				t.Errorf("lacks pods: %v, want %v", got, tc.want)
			}
		})
	}
}

// A ReplicaSet says that it was refused a pod. Of a Job or ReplicationController the numbers tell, unless its pods fail: then its controller
// waits for reasons of its own.
func TestRefused(t *testing.T) {
	says := func(kind appsv1.ReplicaSetConditionType, status corev1.ConditionStatus, reason string) *appsv1.ReplicaSet {
		set := &appsv1.ReplicaSet{}
		set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: "Other"}, {Type: kind, Status: status, Reason: reason, Message: "admission webhook denied the request"}}
		return set
	}
	job := func(active, terminating, failed int32) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Active: active, Terminating: &terminating, Failed: failed}}
	}
	for name, tc := range map[string]struct {
		workload any
		want     bool
	}{
		"a ReplicaSet that was refused a pod":          {says(appsv1.ReplicaSetReplicaFailure, corev1.ConditionTrue, "FailedCreate"), true},
		"a ReplicaSet that was refused a deletion":     {says(appsv1.ReplicaSetReplicaFailure, corev1.ConditionTrue, "FailedDelete"), false},
		"a ReplicaSet that was refused a pod before":   {says(appsv1.ReplicaSetReplicaFailure, corev1.ConditionFalse, "FailedCreate"), false},
		"a ReplicaSet that makes its pods":             {&appsv1.ReplicaSet{}, false},
		"a Job without pods":                           {&batchv1.Job{}, true},
		"a Job that lacks one of its pods":             {job(1, 0, 0), true},
		"a Job that has its pods":                      {job(2, 0, 0), false},
		"a Job whose pod terminates":                   {job(1, 1, 0), false},
		"a Job whose pod has failed":                   {job(0, 0, 1), false},
		"a ReplicationController that lacks a pod":     {&corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 1}}, true},
		"a ReplicationController that has its pods":    {&corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 2}}, false},
		"a DaemonSet, which no spread has as a target": {&appsv1.DaemonSet{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pin.Refused(tc.workload, 2); got != tc.want {
				t.Errorf("refused: %t, want %t", got, tc.want)
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
