package budget_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

func TestPodOf(t *testing.T) {
	readySince := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-d)) }
	}
	want := func(change func(*budget.Pod)) budget.Pod {
		p := budget.Pod{UID: "u-0", Name: "web-0", Available: true, Serving: true, Ready: true}
		change(&p)
		return p
	}
	notServing := func(p *budget.Pod) { p.Available, p.Serving = false, false }
	notReady := func(p *budget.Pod) { notServing(p); p.Ready = false }
	finished := func(p *budget.Pod) { notServing(p); p.Finished = true }
	cases := map[string]struct {
		change func(*corev1.Pod)
		stable time.Duration
		want   budget.Pod
	}{
		"Ready, and no stable time": {func(*corev1.Pod) {}, 0, want(func(*budget.Pod) {})},
		"an image by another digest than the one that runs": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/web@sha256:aa"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ImageID: "sha256:bb"}}
		}, 0, want(func(*budget.Pod) {})},
		"Ready for the stable time":   {readySince(10 * time.Second), 10 * time.Second, want(func(*budget.Pod) {})},
		"Ready for a shorter time":    {readySince(9 * time.Second), 10 * time.Second, want(func(p *budget.Pod) { p.Available = false })},
		"Ready since some other time": {readySince(-time.Hour), 10 * time.Second, want(func(p *budget.Pod) { p.Available = false })},
		"Ready without a time": {
			func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, time.Second,
			want(func(p *budget.Pod) { p.Available = false }),
		},
		"not Ready":         {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, 0, want(notReady)},
		"Ready is unknown":  {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionUnknown }, 0, want(notReady)},
		"no condition":      {func(p *corev1.Pod) { p.Status.Conditions = nil }, 0, want(notReady)},
		"terminating":       {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }, 0, want(finished)},
		"Failed":            {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, 0, want(finished)},
		"Succeeded":         {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, 0, want(finished)},
		"Pending, as it is": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, 0, want(func(p *budget.Pod) { notServing(p); p.Pending = true })},
		"an unknown phase":  {func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }, 0, want(notServing)},
		"a change that the kubelet has not seen": {
			func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, 2 }, 0,
			want(func(p *budget.Pod) { p.Available, p.Changing = false, true }),
		},
		"a change that the kubelet has seen":      {func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, 3 }, 0, want(func(*budget.Pod) {})},
		"a kubelet that tells nothing of changes": {func(p *corev1.Pod) { p.Generation = 3 }, 0, want(func(*budget.Pod) {})},
		"labelled": {
			func(p *corev1.Pod) { p.Labels["unavailable-pod.kruise.io/lag"] = "" }, 0, want(notServing),
		},
		"labelled similarly": {
			func(p *corev1.Pod) { p.Labels["x.unavailable-pod.kruise.io/lag"] = "" }, 0, want(func(*budget.Pod) {}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, budget.PodOf(readyPod(tc.change), tc.stable, now)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStableAt(t *testing.T) {
	pod := readyPod() // Ready for a minute
	if at, ok := budget.StableAt(pod, 90*time.Second, now); !ok || !at.Equal(now.Add(30*time.Second)) {
		t.Errorf("stable at %v, %v; want in 30 s", at, ok)
	}
	if _, ok := budget.StableAt(pod, time.Minute, now); ok {
		t.Error("a stable pod becomes stable again")
	}
	if _, ok := budget.StableAt(readyPod(func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, 2 }), time.Second, now); ok {
		t.Error("a pod whose change is to come becomes stable")
	}
	if _, ok := budget.StableAt(readyPod(func(p *corev1.Pod) { p.Status.Conditions = nil }), time.Hour, now); ok {
		t.Error("a pod that is not Ready becomes stable")
	}
}

// Only the resize that an entry is about waits for a kubelet that puts resizes off.
func TestSeenTellsHowFarTheKubeletIs(t *testing.T) {
	condition := func(kind corev1.PodConditionType, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason})
		}
	}
	generations := func(of, observed int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = of, observed }
	}
	deferred, infeasible := condition(corev1.PodResizePending, corev1.PodReasonDeferred), condition(corev1.PodResizePending, corev1.PodReasonInfeasible)
	base := ledger.PodSeen{Version: "5", Grace: time.Minute} // until a silent kubelet is noticed
	with := func(edit func(*ledger.PodSeen)) ledger.PodSeen {
		p := base
		edit(&p)
		return p
	}
	for name, tc := range map[string]struct {
		pod  func(*corev1.Pod)
		of   budget.Vector
		want ledger.PodSeen
	}{
		"nothing is known":    {func(*corev1.Pod) {}, budget.Update, base},
		"the kubelet is late": {generations(3, 2), budget.Update, with(func(p *ledger.PodSeen) { p.Generation, p.Pending, p.Grace = 3, true, 0 })},
		"an old kubelet":      {generations(3, 0), budget.Update, with(func(p *ledger.PodSeen) { p.Generation = 3 })},
		"the kubelet knows":   {generations(3, 3), budget.Update, with(func(p *ledger.PodSeen) { p.Generation, p.Grace = 3, 0 })},
		"a deferred resize":   {deferred, budget.Resize, with(func(p *ledger.PodSeen) { p.Pending = true })},
		"one before":          {deferred, budget.Update, base},
		"a resize begins":     {condition(corev1.PodResizeInProgress, ""), budget.Resize, with(func(p *ledger.PodSeen) { p.Resizing = true })},
		"an infeasible one":   {infeasible, budget.Resize, with(func(p *ledger.PodSeen) { p.Infeasible = true })},
		"infeasible before":   {infeasible, budget.Update, base},
		"it ends":             {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, budget.Update, with(func(p *ledger.PodSeen) { p.Going = true })},
		"a grace period":      {func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) }, budget.Update, with(func(p *ledger.PodSeen) { p.Grace = 2 * time.Minute })},
		"restarts": {func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 4}}
		}, budget.Update, with(func(p *ledger.PodSeen) { p.Restarts = 7 })},
	} {
		t.Run(name, func(t *testing.T) {
			pod := readyPod(func(p *corev1.Pod) { p.ResourceVersion = "5" }, tc.pod)
			for _, silent := range []bool{false, true} {
				tc.want.Silent = silent
				if diff := cmp.Diff(tc.want, budget.Seen(pod, silent, ledger.Entry{Vector: string(tc.of)})); diff != "" {
					t.Errorf("seen (-want +got):\n%s", diff)
				}
			}
		})
	}
}
